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

// listening is a master's connection whose listeners on the host are asked for beside
// it: a master does not pass the answer to such a request on to who asked through it.
type listening struct {
	ssh.Conn
	beside ssh.Conn
}

// withListeners completes a master's connection.
func (m *master) withListeners(ctx context.Context, c ssh.Conn) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "unix", m.control())
	if err != nil {
		return nil, nil, nil, err
	}
	beside, channels, requests, err := mux.Attach(raw, mux.Options{Path: m.control()})
	if err != nil {
		return nil, nil, nil, err
	}
	return &listening{c, beside}, channels, requests, nil
}

// SendRequest implements ssh.Conn.
func (l *listening) SendRequest(name string, wantReply bool, payload []byte) (bool, []byte, error) {
	return l.beside.SendRequest(name, wantReply, payload)
}

// Close implements ssh.Conn.
func (l *listening) Close() error {
	_ = l.beside.Close()
	return l.Conn.Close()
}

// Wait implements ssh.Conn.
func (l *listening) Wait() error {
	err := l.Conn.Wait()
	_ = l.beside.Close()
	_ = l.beside.Wait()
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
	t.wire.seen = true // there is no greeting on this one
	m, channels, requests, err := mux.Attach(t.wire, mux.Options{Path: path, Heard: t.wire.hear})
	if err != nil {
		return nil, err
	}
	c := newConn(t, ssh.NewClient(m, channels, requests))
	c.mute, c.lent = true, true
	c.transport, c.because = api.TransportMaster, "your own ssh connection at "+path
	c.auth, c.via = "controlmaster", slices.Concat([]string{}, t.settings.ProxyJump)
	if err := t.probeMaster(ctx, c); err != nil {
		c.close(err)
		return nil, err
	}
	return c, nil
}
