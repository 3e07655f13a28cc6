//go:build unix

package tunnel

import (
	"context"
	"net"
	"slices"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/mux"
)

// sharesConnections reports whether the ssh program of this system can.
const sharesConnections = true

// listeningConn is a master's connection that requests listeners over a second
// connection to it: x/crypto's connection does not get the master's reply to such a
// request.
type listeningConn struct {
	ssh.Conn
	forwards ssh.Conn
}

// withListeners adds the second connection.
func (m *master) withListeners(ctx context.Context, c ssh.Conn) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "unix", m.control())
	if err != nil {
		return nil, nil, nil, err
	}
	forwards, channels, requests, err := mux.Attach(raw, mux.Options{Path: m.control()})
	if err != nil {
		return nil, nil, nil, err
	}
	return &listeningConn{c, forwards}, channels, requests, nil
}

// SendRequest implements ssh.Conn.
func (l *listeningConn) SendRequest(name string, wantReply bool, payload []byte) (bool, []byte, error) {
	return l.forwards.SendRequest(name, wantReply, payload)
}

// Close implements ssh.Conn.
func (l *listeningConn) Close() error {
	_ = l.forwards.Close()
	return l.Conn.Close()
}

// Wait implements ssh.Conn.
func (l *listeningConn) Wait() error {
	err := l.Conn.Wait()
	_ = l.forwards.Close()
	_ = l.forwards.Wait()
	return err
}

// attachMaster makes a connection of the person's control socket.
func (t *attempt) attachMaster(ctx context.Context) (*conn, error) {
	path := t.settings.ControlPath
	raw, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	t.wire = newWire(raw)
	t.wire.greeted = true // a control socket has no greeting
	m, channels, requests, err := mux.Attach(t.wire, mux.Options{Path: path, Received: t.wire.noteRead})
	if err != nil {
		return nil, err
	}
	c := newConn(t, ssh.NewClient(m, channels, requests))
	c.heldBySSH, c.reused = true, true
	c.transport, c.transportWhy = api.TransportMaster, "your own ssh connection at "+path
	c.auth, c.via = "controlmaster", slices.Concat([]string{}, t.settings.ProxyJump)
	if err := t.probeMaster(ctx, c); err != nil {
		c.close(err)
		return nil, err
	}
	return c, nil
}
