package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// serveTCP dials where a direct-tcpip channel wants to go (RFC 4254, 7.2).
func (c *Cluster) serveTCP(ch ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Originator string
		FromPort   uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &to); err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	if c.noForwarding.Load() {
		_ = ch.Reject(ssh.Prohibited, "open failed")
		return
	}
	addr, ok := c.resolve(to.Host, int(to.Port))
	if !ok {
		_ = ch.Reject(ssh.ConnectionFailed, "Name or service not known")
		return
	}
	if c.hides != nil && addr != c.addr && c.hides(int(to.Port)) {
		_ = ch.Reject(ssh.ConnectionFailed, dialFailure(syscall.ECONNREFUSED))
		return
	}
	if node, _, _ := strings.Cut(strings.ToLower(to.Host), "."); addr == c.addr && slices.Contains(nodes, node) {
		c.join(ch, func(ctx context.Context) (net.Conn, error) { return dialNode(ctx, c, node) })
		return
	}
	c.join(ch, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) })
}

// serveSocket dials a unix socket for OpenSSH's direct-streamlocal.
func (c *Cluster) serveSocket(ch ssh.NewChannel) {
	var to struct {
		Path     string
		Reserved string
		Port     uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &to); err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	c.join(ch, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", to.Path) })
}

// resolve is the cluster's name service. Nothing beyond this computer has a name
// in it: the practice cluster is no way out.
func (c *Cluster) resolve(host string, port int) (string, bool) {
	name, _, _ := strings.Cut(strings.ToLower(host), ".")
	isNode := slices.Contains(nodes, name) && (host == name || strings.HasSuffix(host, "."+alias))
	if isNode && port == 22 {
		return c.addr, true // its sshd: see dialNode
	}
	loopback := net.ParseIP(host)
	switch {
	case isNode, host == loginNode, host == "localhost":
		host = "127.0.0.1"
	case loopback == nil || !loopback.IsLoopback():
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), true
}

// dialNode connects to the sshd of a compute node.
func dialNode(ctx context.Context, c *Cluster, node string) (net.Conn, error) {
	listener, err := c.listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, err
	}
	far, err := listener.Accept()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c.wg.Go(func() { c.serveConn(far, node) })
	return conn, nil
}

func (c *Cluster) join(ch ssh.NewChannel, dial func(context.Context) (net.Conn, error)) {
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, dialFailure(err))
		return
	}
	defer func() { _ = conn.Close() }()
	channel, requests, err := ch.Accept()
	if err != nil {
		return
	}
	joinChannel(conn, channel, requests)
}

// joinChannel copies both ways between a connection and a channel, to their ends.
func joinChannel(conn net.Conn, channel ssh.Channel, requests <-chan *ssh.Request) {
	var up, asked sync.WaitGroup
	asked.Go(func() { ssh.DiscardRequests(requests) })
	up.Go(func() {
		_, _ = io.Copy(conn, channel)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite() // of TCP or a unix socket
	})
	_, _ = io.Copy(channel, conn)
	_ = channel.CloseWrite()
	up.Wait()
	_ = channel.Close() // a client may wait for this before it closes, which ends the requests
	asked.Wait()
}

// dialFailure words a failed dial as sshd does.
func dialFailure(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Connection refused"
	case errors.Is(err, syscall.ENOENT):
		return "No such file or directory"
	case errors.Is(err, context.DeadlineExceeded):
		return "Connection timed out"
	}
	return "Connection failed"
}
