package lab

import (
	"net"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
)

// remoteForwards are the listeners of one connection (RFC 4254, section 7.1), on loopback
// only.
type remoteForwards struct {
	cluster   *Cluster
	conn      ssh.Conn
	listeners map[string]net.Listener // by the address as requested
	wg        sync.WaitGroup
}

// serve answers requests to the end of the connection. It refuses others than those for
// listeners, keepalives too, as sshd does.
func (f *remoteForwards) serve(requests <-chan *ssh.Request) {
	defer f.wg.Wait()
	defer func() {
		for _, l := range f.listeners {
			_ = l.Close()
		}
	}()
	for r := range requests {
		var at struct {
			Host string
			Port uint32
		}
		ok, reply := false, []byte(nil)
		switch {
		case r.Type != "tcpip-forward" && r.Type != "cancel-tcpip-forward" || ssh.Unmarshal(r.Payload, &at) != nil:
		case r.Type == "tcpip-forward":
			ok, reply = f.listen(at.Host, at.Port)
		default:
			ok = f.cancel(address(at.Host, at.Port))
		}
		if r.WantReply {
			_ = r.Reply(ok, reply)
		}
	}
}

func address(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}

func (f *remoteForwards) listen(host string, port uint32) (bool, []byte) {
	l, err := f.cluster.listen(address("127.0.0.1", port))
	if err != nil {
		return false, nil
	}
	chosen := uint32(l.Addr().(*net.TCPAddr).Port)
	f.listeners[address(host, chosen)] = l
	f.wg.Go(func() { f.accept(l, host, chosen) })
	if port != 0 {
		return true, nil
	}
	return true, ssh.Marshal(struct{ Port uint32 }{chosen})
}

func (f *remoteForwards) cancel(at string) bool {
	l := f.listeners[at]
	if l == nil {
		return false
	}
	delete(f.listeners, at)
	return l.Close() == nil
}

// accept opens a channel for each connection.
func (f *remoteForwards) accept(l net.Listener, host string, port uint32) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() {
			defer func() { _ = conn.Close() }()
			ch, requests, err := f.conn.OpenChannel("forwarded-tcpip", ssh.Marshal(struct {
				Host       string
				Port       uint32
				Originator string
				FromPort   uint32
			}{host, port, "127.0.0.1", 1}))
			if err == nil {
				joinChannel(conn, ch, requests)
			}
		})
	}
}
