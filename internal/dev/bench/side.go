//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/tunneltest"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
)

// side is one of those that are compared: a process that forwards a local port.
type side struct {
	name    string
	cmd     *exec.Cmd
	address string // where it listens
	words   io.WriteCloser
}

// The sides' names in samples.
const (
	ours      = "tunctl"
	plainSSH  = "ssh -L"
	aesSSH    = "ssh -L -c aes128-gcm"
	sideRole  = "side"
	waitReady = 20 * time.Second
)

// startSSH runs ssh as people do for a tunnel.
func (t *testbed) startSSH(ctx context.Context, name, host, target string, args ...string) (*side, error) {
	port, err := ground.FreePort()
	if err != nil {
		return nil, err
	}
	s := &side{name: name, address: fmt.Sprintf("127.0.0.1:%d", port)}
	args = append([]string{"-F", t.config, "-N", "-o", "ExitOnForwardFailure=yes", "-L", fmt.Sprintf("%d:%s", port, target)}, args...)
	s.cmd = exec.CommandContext(ctx, "ssh", append(args, host)...)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	return s, s.await(ctx)
}

// await waits until the side listens.
func (s *side) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitReady)
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w", s.name, err)
		}
	}
}

// startOurs runs tunctl's side: the tunnel package in a process of its own.
func (t *testbed) startOurs(ctx context.Context, kind, target string, names ...string) (*side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &side{name: ours, cmd: exec.CommandContext(ctx, self, append([]string{sideRole, t.config, kind, target}, names...)...)}
	s.cmd.Stderr = os.Stderr
	if s.words, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.address = strings.TrimSpace(line)
	return s, err
}

// cpu is the processor time of the side so far, rss its memory in bytes.
func (s *side) cpu() (time.Duration, error) { return ground.CPU(s.cmd.Process.Pid) }
func (s *side) rss() (float64, error)       { return ground.Memory(s.cmd.Process.Pid) }

// stop ends the side.
func (s *side) stop() {
	if s == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// say sends the side a word.
func (s *side) send(word string) error {
	_, err := io.WriteString(s.words, word+"\n")
	return err
}

// serveSide is the other process. It connects to all hosts, forwards a port over the
// first, and goes when its input ends.
func serveSide(args []string) error {
	config, kind, target, names := args[0], args[1], args[2], args[3:]
	debug.SetGCPercent(tunnel.GCPercent) // as the agent does
	limits := tunnel.DefaultLimits()
	// As for a connection that has stood for a while, which a bench has no time for.
	limits.StableAfter, limits.LoginSpacing = time.Millisecond, time.Millisecond
	pool := tunneltest.NewPool(config, tunnel.Options{Limits: limits})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 2)
	running := 1
	go func() { served <- pool.Serve(ctx) }()
	defer func() {
		cancel()
		for range running {
			<-served
		}
	}()
	for _, name := range names {
		h := pool.Host(name)
		h.Up()
		waiting, stop := context.WithTimeout(ctx, waitReady)
		err := h.Await(waiting)
		stop()
		if err != nil {
			return err
		}
	}
	f, err := forward.Listen(forward.ListenOptions{Name: "bench"})
	if err != nil {
		return err
	}
	running++
	go func() { served <- f.Serve(ctx) }()
	f.Open(forward.Target{Dialer: pool.Host(names[0]), Network: "tcp", Address: target, HTTP: kind == "http"})
	fmt.Println(f.Addr())
	return handleWords(pool)
}

// obey does what the bench says: "moved" is a change of networks.
func handleWords(pool *tunnel.Pool) error {
	words := bufio.NewScanner(os.Stdin)
	for words.Scan() {
		if words.Text() != "moved" {
			return errors.New("no such word: " + words.Text())
		}
		pool.NetworkChanged()
	}
	return words.Err()
}
