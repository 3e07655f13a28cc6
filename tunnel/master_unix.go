//go:build unix

package tunnel

import (
	"context"
	"net"

	"golang.org/x/crypto/ssh"

	"tunctl/tunnel/mux"
)

// sharesConnections reports whether the ssh program of this system can.
const sharesConnections = true

// dialControl connects to a master's control socket.
func dialControl(ctx context.Context, path string) (net.Conn, error) { return mux.Dial(ctx, path) }

// listeningConn is a master's connection that requests listeners over a second
// connection to it: x/crypto's connection does not get the master's reply to such a
// request.
type listeningConn struct {
	ssh.Conn
	listeners *mux.Conn
}

// withListeners adds the second connection.
func (m *master) withListeners(ctx context.Context, c ssh.Conn) (ssh.Conn, <-chan ssh.NewChannel, error) {
	listeners, err := mux.Attach(ctx, m.control())
	if err != nil {
		return nil, nil, err
	}
	return &listeningConn{c, listeners}, listeners.Channels(), nil
}

// SendRequest implements ssh.Conn.
func (l *listeningConn) SendRequest(name string, wantReply bool, payload []byte) (bool, []byte, error) {
	return l.listeners.SendRequest(name, wantReply, payload)
}

// Close implements ssh.Conn.
func (l *listeningConn) Close() error {
	_ = l.listeners.Close()
	return l.Conn.Close()
}

// Wait implements ssh.Conn.
func (l *listeningConn) Wait() error {
	err := l.Conn.Wait()
	_ = l.listeners.Close()
	l.listeners.Wait()
	return err
}
