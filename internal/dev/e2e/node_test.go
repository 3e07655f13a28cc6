package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/tunneltest"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/node"
)

// echoJob serves the loopback of its node: what comes is sent back, to the last byte
// after the client's half-close.
const echoJob = `#!/bin/bash
#SBATCH --time=10:00 --output=/dev/null --nodelist=cn01
exec python3 -c '
import socket, threading
def echo(c):
    while True:
        b = c.recv(65536)
        if not b: break
        c.sendall(b)
    c.close()
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 7007))
s.listen(50)
while True:
    c, _ = s.accept()
    threading.Thread(target=echo, args=(c,), daemon=True).start()
'
`

// connected is a host of the lab, logged in to.
func connected(t *testing.T, lab *real.Lab, alias string) *tunnel.Host {
	t.Helper()
	pool := tunneltest.NewPool(lab.SSHConfig(), tunnel.Options{Limits: tunnel.PracticeLimits()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pool.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	h := pool.Host(alias)
	h.Up()
	waiting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := h.Await(waiting); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestEveryWayOntoANodeCarriesEveryByte(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	lab := real.Start(t)
	job := lab.Submit(echoJob)
	lab.WaitJob(job, "RUNNING")
	defer lab.Cancel(job)
	for _, tt := range []struct {
		way     string
		host    string
		before  func()
		limited bool
	}{
		{"our own hop", "lab-login", func() {}, false},
		{"ssh on the host, which forbids forwarding", "lab-tight", func() {}, true},
		{"srun, where the node has no sshd", "lab-login", func() { lab.StopSSHD("cn01") }, false},
	} {
		t.Run(tt.way, func(t *testing.T) {
			tt.before()
			node := node.New(connected(t, lab, tt.host).Link(), node.Options{Names: []string{"cn01"}, Job: job})
			defer node.Close()
			began := time.Now()
			echoes(t, node)
			t.Logf("%s: %v with a megabyte both ways", tt.way, time.Since(began).Round(time.Millisecond))
			if node.Limited() != tt.limited {
				t.Errorf("limited = %v, want %v: it went another way", node.Limited(), tt.limited)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if c, err := node.Dial(ctx, "tcp", "127.0.0.1:7008"); !errors.Is(err, api.ErrRefused) {
				t.Errorf("a port where nothing listens: %v, %v", c, err)
			}
		})
	}
	lab.StartSSHD("cn01")
}

// echoes sends a megabyte of anything, half-closes, and wants it all back.
func echoes(t *testing.T, d forward.Dialer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var c net.Conn
	for { // the job may be running and not serving yet
		var err error
		if c, err = d.Dial(ctx, "tcp", "127.0.0.1:7007"); err == nil {
			break
		}
		if !errors.Is(err, api.ErrRefused) {
			t.Fatal(err)
		}
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	sent := make([]byte, 1<<20)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = c.Write(sent)
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back right: %v", prefix(got, sent), len(sent), err)
	}
}

func prefix(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
