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
	c.join(ch, "tcp", addr)
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
	c.join(ch, "unix", to.Path)
}

// resolve is the cluster's name service. Nothing beyond this computer has a name
// in it: the practice cluster is no way out.
func (c *Cluster) resolve(host string, port int) (string, bool) {
	name, _, _ := strings.Cut(strings.ToLower(host), ".")
	isNode := slices.Contains(nodes, name) && (host == name || strings.HasSuffix(host, "."+alias))
	if isNode && port == 22 {
		return c.addr, true // every node runs the same sshd
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

func (c *Cluster) join(ch ssh.NewChannel, network, addr string) {
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
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
