package lab

import (
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// handshakeLimit is sshd's LoginGraceTime.
const handshakeLimit = 2 * time.Minute

func (c *Cluster) listen(addr string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(c.ctx, "tcp", addr)
}

func (c *Cluster) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		c.wg.Go(func() { c.serveConn(conn, loginNode) })
	}
}

// serveConn serves a connection to the sshd of a node.
func (c *Cluster) serveConn(raw net.Conn, node string) {
	link := c.links.wrap(raw)
	defer link.done()
	if c.ctx.Err() != nil { // came in while Close dropped the others
		link.drop()
		return
	}
	grace := time.AfterFunc(handshakeLimit, link.drop)
	conn, channels, requests, err := ssh.NewServerConn(link, c.countLogins())
	grace.Stop()
	if err != nil {
		c.log.Debug("practice login failed", "err", err)
		return
	}
	defer func() { _ = conn.Close() }()
	var wg sync.WaitGroup
	defer wg.Wait()
	forwards := &remoteForwards{cluster: c, conn: conn, listeners: map[string]net.Listener{}}
	wg.Go(func() { forwards.serve(requests) })
	for ch := range channels {
		switch ch.ChannelType() {
		case "session":
			// Owned by the cluster: like sshd's, a command outlives its connection.
			c.wg.Go(func() { c.serveSession(ch, node) })
		case "direct-tcpip":
			wg.Go(func() { c.serveTCP(ch) })
		case "direct-streamlocal@openssh.com":
			wg.Go(func() { c.serveSocket(ch) })
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "unknown channel type")
		}
	}
}

// countLogins is the server's config, counting one login for this connection as
// soon as it offers anything.
func (c *Cluster) countLogins() *ssh.ServerConfig {
	config := *c.config
	var once sync.Once
	config.AuthLogCallback = func(_ ssh.ConnMetadata, method string, _ error) {
		if method == "none" {
			return
		}
		once.Do(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.logins++
		})
	}
	return &config
}
