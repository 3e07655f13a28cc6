//go:build !windows

package openssh

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tunctl/internal/dev/wait"
)

// fakeMaster is an ssh program that holds a connection. Requests about its listeners run
// the shell code script, with ssh's arguments.
func fakeMaster(t *testing.T, script string) *Master {
	t.Helper()
	dir, err := os.MkdirTemp("", "s-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &Master{dir: dir}
	m.running, m.end = context.WithCancel(t.Context())
	m.cmd = &exec.Cmd{Path: filepath.Join(m.dir, "ssh")}
	if err := os.WriteFile(m.cmd.Path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	control, err := net.Listen("unix", m.control())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := control.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { sayHello(c) })
		}
	})
	t.Cleanup(func() {
		m.end()
		_ = control.Close()
		wg.Wait()
	})
	return m
}

// sayHello answers a client of a control socket that says hello and asks for the proxy mode
// (PROTOCOL.mux).
func sayHello(c net.Conn) {
	defer func() { _ = c.Close() }()
	sent := make([]byte, 24)
	if _, err := io.ReadFull(c, sent); err == nil {
		binary.BigEndian.PutUint32(sent[16:], 0x8000000f)
		_, _ = c.Write(sent)
		_, _ = io.Copy(io.Discard, c)
	}
}

func TestAnSSHOfOursIsAskedToListenAndToStop(t *testing.T) {
	for _, tc := range []struct{ network, address, forward, at string }{
		{"tcp", "127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80"},
		{"tcp", "[::1]:0", "[::1]:0", "[::1]:4711"},
		{"unix", `/tmp/a:b\c`, `/tmp/a\:b\\c`, `/tmp/a:b\c`},
	} {
		m := fakeMaster(t, `printf '%s\n' "$*" >>"$0.log"; echo 4711`)
		l, err := m.Listen(tc.network, tc.address)
		if err != nil {
			t.Fatal(err)
		}
		if l.Addr().String() != tc.at {
			t.Errorf("it listens at %v, not at %s", l.Addr(), tc.at)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		log, err := os.ReadFile(m.cmd.Path + ".log")
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for _, what := range []string{"forward", "cancel"} {
			want.WriteString("-F none -S " + m.control() + " -O " + what + " -R " + tc.forward + ":" + m.dir + "/r1 -- host\n")
		}
		if string(log) != want.String() {
			t.Errorf("ssh was run with\n%s, not with\n%s", log, want.String())
		}
	}
}

func TestTheReasonOfAHostThatDoesNotListenIsSSHs(t *testing.T) {
	m := fakeMaster(t, "echo Port forwarding failed >&2; exit 255")
	if _, err := m.Listen("tcp", "127.0.0.1:80"); err == nil || err.Error() != "Port forwarding failed" {
		t.Errorf("it says %v", err)
	}
}

func TestTheEndOfAnSSHOfOursEndsWhatWaitsForIt(t *testing.T) {
	m := fakeMaster(t, `case "$*" in *:80:*) ;; *) mkfifo "$0.fifo"; echo >"$0.begun"; read x <"$0.fifo";; esac`)
	l, err := m.Listen("tcp", "127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	go func() {
		_, err := m.Listen("tcp", "127.0.0.1:81")
		ended <- err
	}()
	wait.Until(t, "the second one has begun", func() bool { _, err := os.Stat(m.cmd.Path + ".begun"); return err == nil })
	m.end()
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing a listener that has ended: %v", err)
	}
}

func TestOnlyALiveSSHOfOursMakesAStreamsEndComplete(t *testing.T) {
	for _, dies := range []bool{false, true} {
		m := fakeMaster(t, "")
		l, err := m.Listen("tcp", "127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		sender, err := net.Dial("unix", filepath.Join(m.dir, "r1"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(sender, "half")
		if dies {
			_ = os.Remove(m.control())
		}
		_ = sender.Close()
		if got, err := io.ReadAll(c); string(got) != "half" || errors.Is(err, io.ErrUnexpectedEOF) != dies {
			t.Errorf("it dies: %v; read %q, %v", dies, got, err)
		}
		_ = c.Close()
		_ = l.Close()
	}
}
