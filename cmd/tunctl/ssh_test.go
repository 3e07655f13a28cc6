package main

import (
	"crypto/ed25519"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/home"
	"tunctl/internal/term"
)

// TestTerminalLost has an agent that ends while it is asked for a terminal.
func TestTerminalLost(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	near, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		far, err := l.Accept()
		if err != nil {
			return
		}
		cfg := &ssh.ServerConfig{NoClientAuth: true}
		cfg.AddHostKey(signer)
		server, channels, _, err := ssh.NewServerConn(far, cfg)
		if err != nil {
			return
		}
		if _, requests, err := (<-channels).Accept(); err == nil {
			<-requests
		}
		_ = server.Close()
	}()
	conn, channels, requests, err := ssh.NewClientConn(near, "agent", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(signer.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { _ = client.Close() })
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if _, err = allocateTerminal(t.Context(), term.New(strings.NewReader(""), &said, &said), session); !isLost(err) || said.String() != "" {
		t.Errorf("it says %q, and fails with %v", said.String(), err)
	}
}

func TestDemoEnded(t *testing.T) {
	p := home.In(filepath.Join(t.TempDir(), "home"))
	p.Moved = true
	if err := os.MkdirAll(filepath.Dir(p.State), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(practiceMark(p), nil, 0o600); err != nil || demoEnded(p) {
		t.Errorf("a demo that runs has ended, %v", err)
	}
	if err := os.WriteFile(practiceMark(p), []byte(demoOver), 0o600); err != nil || !demoEnded(p) {
		t.Errorf("a demo that ends has not ended, %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(p.State)); err != nil || !demoEnded(p) {
		t.Errorf("a demo whose files are gone has not ended, %v", err)
	}
}
