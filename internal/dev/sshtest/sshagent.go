package sshtest

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// NewKeyring is an ssh-agent that holds a new key.
func NewKeyring(t testing.TB) (agent.Agent, ssh.PublicKey) {
	t.Helper()
	key, ring := newKey(t), agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	return ring, signer(t, key).PublicKey()
}

// ServeAgent serves an ssh-agent on a socket, one client at a time.
func ServeAgent(t testing.TB, a agent.Agent) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a test's own folder has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(a, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return socket
}
