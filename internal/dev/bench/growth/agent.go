//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"tunctl/internal/agent"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/home"
	"tunctl/tunnel"
)

const (
	agentRole  = "agent"
	startLimit = 20 * time.Second
	upLimit    = 2 * time.Minute
)

// running is an agent in a process of its own, with sessions that forward a port, on
// hosts that are addresses of one sshd.
type running struct {
	dir    string
	sshd   *ground.Server
	cmd    *exec.Cmd
	words  io.WriteCloser
	says   *bufio.Reader
	client *client.Client
	names  []string // of the sessions
	ports  []int    // of their forwards
}

// startAgent starts an agent and brings all its sessions up.
func startAgent(ctx context.Context, hosts, sessions int, target string) (_ *running, err error) {
	r := &running{}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "tunctl-bench-"); err != nil {
		return nil, err
	}
	if r.sshd, err = ground.Serve(ctx, r.dir, "MaxStartups 200", "SetEnv HOME="+r.dir); err != nil {
		return nil, err
	}
	var ways []ground.Way
	for h := range hosts {
		ways = append(ways, ground.Way{Name: fmt.Sprintf("host%d", h), Address: fmt.Sprintf("127.0.1.%d", h+1)})
	}
	config := filepath.Join(r.dir, "ssh_config")
	if err := r.sshd.WriteConfig(config, ways...); err != nil {
		return nil, err
	}
	if r.ports, err = freePorts(ctx, hosts*sessions); err != nil {
		return nil, err
	}
	paths := home.In(filepath.Join(r.dir, "home"))
	if err := r.writeConfig(paths.Config, sessions, target); err != nil {
		return nil, err
	}
	r.client = client.New(paths)
	if err := r.launch(ctx, config); err != nil {
		return nil, err
	}
	return r, r.up(ctx)
}

// freePorts are ports that nobody listens on.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all at the end, so that none comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func (r *running) writeConfig(file string, sessions int, target string) error {
	var b strings.Builder
	for i, port := range r.ports {
		name := fmt.Sprintf("s%d", i)
		r.names = append(r.names, name)
		fmt.Fprintf(&b, "[session.%s]\nhost = \"host%d\"\nforward = [\"%d:%s\"]\n\n", name, i/sessions, port, target)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

func (r *running) launch(ctx context.Context, sshConfig string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r.cmd = exec.CommandContext(ctx, self, agentRole, filepath.Join(r.dir, "home"), sshConfig)
	r.cmd.Stderr = os.Stderr
	if r.words, err = r.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r.says = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	_, err = r.client.Ensure(ctx, func(context.Context) (<-chan error, error) { return nil, nil })
	return err
}

// up brings all sessions up and waits until they are ready.
func (r *running) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upLimit)
	defer cancel()
	for _, name := range r.names {
		if _, err := r.client.Up(ctx, api.UpRequest{Session: name}); err != nil {
			return err
		}
	}
	for {
		st, err := r.client.Status(ctx)
		if err != nil {
			return err
		}
		ready := 0
		for _, s := range st.Sessions {
			if s.State == api.SessionReady {
				ready++
			}
		}
		if ready == len(r.names) {
			return nil
		}
		if err := ctxtime.Sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d sessions are ready: %w", ready, len(r.names), err)
		}
	}
}

func (r *running) pid() int { return r.cmd.Process.Pid }

// goroutines is how many the agent has.
func (r *running) goroutines() (n float64, err error) {
	if _, err := io.WriteString(r.words, "goroutines\n"); err != nil {
		return 0, err
	}
	line, err := r.says.ReadString('\n')
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(line, &n)
	return n, err
}

// stop ends the agent and the sshd.
func (r *running) stop() {
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Signal(syscall.SIGKILL)
		_ = r.cmd.Wait()
	}
	r.sshd.Close()
	_ = os.RemoveAll(r.dir)
}

// serveAgent is the other process. It tells how many goroutines it has when asked, and
// ends with its input.
func serveAgent(args []string) error {
	debug.SetGCPercent(tunnel.GCPercent) // as the agent does
	limits := session.DefaultLimits()
	// As for connections that have stood for a while, which a bench has no time for.
	limits.Tunnel.StableAfter, limits.Tunnel.LoginSpacing = time.Millisecond, time.Millisecond
	a, err := agent.New(agent.Options{
		Paths: home.In(args[0]), Version: "bench", SSHConfig: args[1], Limits: limits, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx) }()
	words := bufio.NewScanner(os.Stdin)
	for words.Scan() {
		fmt.Println(runtime.NumGoroutine())
	}
	cancel()
	return errors.Join(words.Err(), <-served)
}
