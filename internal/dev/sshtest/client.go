package sshtest

import (
	"context"
	"io"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Client is a client that nobody has to let in.
func (s *Server) Client(t testing.TB) *ssh.Client {
	t.Helper()
	c, err := s.Dial(t.Context(), nil, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return NewClient(t, c, s.Key.PublicKey())
}

// NewClient is a client, which nobody has to let in, of the server with a key at the other end of c.
func NewClient(t testing.TB, c net.Conn, key ssh.PublicKey) *ssh.Client {
	t.Helper()
	conn, channels, requests, err := ssh.NewClientConn(c, "server", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() {
		_ = client.Close()
		_ = client.Wait()
	})
	return client
}

// Dialer is what connects through a server.
type Dialer interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// DialEcho connects to the echo service that every server forwards to.
func DialEcho(t testing.TB, d Dialer) net.Conn {
	t.Helper()
	c, err := d.Dial(t.Context(), "tcp", "echo:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// EchoThrough checks that a new connection carries bytes in both directions.
func EchoThrough(t testing.TB, d Dialer) {
	t.Helper()
	c := DialEcho(t, d)
	defer func() { _ = c.Close() }()
	StillEchoes(t, c)
}

// StillEchoes checks that a connection to an echo service carries bytes in both directions.
func StillEchoes(t testing.TB, c io.ReadWriter) {
	t.Helper()
	const said = "still there?"
	_, _ = io.WriteString(c, said) // its failure shows in what comes back
	got := make([]byte, len(said))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != said {
		t.Errorf("the echo of %q: %q, %v", said, got, err)
	}
}
