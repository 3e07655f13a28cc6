//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"tunctl/internal/autostart"
	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
	"tunctl/tunnel"
)

const (
	crashes = 2 // after a third one the agent would wait for the user
	// crashGoal is how long the agent may take besides the login.
	crashGoal = 5 * time.Second
)

// measureCrash kills the agent under a supervisor that does what the unit of `tunctl
// autostart on` says, and ssh in a loop with the same pause, and takes the time until a
// byte comes back through the forward. The last login is over a minute ago, so that the
// time between two logins does not count.
func measureCrash(ctx context.Context, t *testbed) ([]table.Row, error) {
	login, _, err := logIn(ctx, t.config, "fast")
	if err != nil {
		return nil, err
	}
	a, err := t.startAgent(ctx)
	if err != nil {
		return nil, err
	}
	defer a.stop()
	peer, err := t.startSSHLoop(ctx)
	if err != nil {
		return nil, err
	}
	defer peer.stop()
	const theirs = "ssh -L in a loop"
	back := table.Samples{}
	for range crashes {
		if err := ctxtime.Sleep(ctx, tunnel.DefaultLimits().LoginSpacing+time.Second); err != nil {
			return nil, err
		}
		for name, s := range map[string]*supervised{ours: a.supervised, theirs: peer} {
			took, err := s.killAndAwait(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			back.Add(name, took.Seconds())
		}
	}
	took := back.Median(ours)
	return []table.Row{{
		Measure: "the agent is killed → a byte through its forward", Peer: theirs, Theirs: back.Median(theirs), Ours: took, Unit: "s",
		Goal: fmt.Sprintf("≤ %v plus the login (%.2f s)", crashGoal, login.Seconds()), Reached: took <= (crashGoal + login).Seconds(),
	}}, nil
}

// supervised is a program that is started again a moment after it was killed.
type supervised struct {
	address string // where it forwards from
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu  sync.Mutex
	cmd *exec.Cmd
}

// supervise runs a program again and again, until stop is called.
func supervise(ctx context.Context, address string, command func(context.Context) *exec.Cmd) *supervised {
	ctx, cancel := context.WithCancel(ctx)
	s := &supervised{address: address, cancel: cancel}
	s.done.Go(func() {
		for ctx.Err() == nil {
			cmd := command(ctx)
			if cmd.Start() == nil {
				s.mu.Lock()
				s.cmd = cmd
				s.mu.Unlock()
				_ = cmd.Wait() // it is killed
			}
			_ = ctxtime.Sleep(ctx, autostart.RestartDelay)
		}
	})
	return s
}

func (s *supervised) stop() {
	s.cancel()
	s.done.Wait()
}

// killAndAwait kills the program and tells how long it takes until the forward works.
func (s *supervised) killAndAwait(ctx context.Context) (time.Duration, error) {
	s.mu.Lock()
	cmd := s.cmd
	s.mu.Unlock()
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return 0, err
	}
	err := s.await(ctx)
	return time.Since(began), err
}

// await waits until a byte comes back through the forward.
func (s *supervised) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := echoOnce(ctx, s.address)
		if err == nil {
			return c.Close()
		}
		if ctxtime.Sleep(ctx, 20*time.Millisecond) != nil {
			return errors.Join(errors.New("the forward did not come back"), err)
		}
	}
}

// benchAgent is the built program's agent, with a session that forwards to the echo.
type benchAgent struct {
	*supervised
	command func(ctx context.Context, args ...string) *exec.Cmd
}

func (t *testbed) startAgent(ctx context.Context) (*benchAgent, error) {
	port, err := ground.FreePort()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(t.dir, "crash")
	config := fmt.Sprintf("[session.echo]\nhost = \"fast\"\nforward = [\"%d:%s\"]\n", port, t.servers.echo.Addr())
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600)); err != nil {
		return nil, err
	}
	a := &benchAgent{command: func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, t.program, args...)
		cmd.Env = append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=", "TUNCTL_SSH_CONFIG="+t.config, "SSH_AUTH_SOCK=")
		return cmd
	}}
	a.supervised = supervise(ctx, fmt.Sprintf("127.0.0.1:%d", port), func(ctx context.Context) *exec.Cmd {
		return a.command(ctx, "agent", "run", "--background")
	})
	if err := a.awaitAgent(ctx); err != nil {
		a.stop()
		return nil, err
	}
	if out, err := a.command(ctx, "up", "--no-open").CombinedOutput(); err != nil {
		a.stop()
		return nil, fmt.Errorf("tunctl up: %w: %s", err, out)
	}
	return a, a.await(ctx)
}

// awaitAgent waits until the supervised agent answers: up would start another one.
func (a *benchAgent) awaitAgent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitReady)
	defer cancel()
	for {
		if a.command(ctx, "agent", "status").Run() == nil {
			return nil
		}
		if err := ctxtime.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the agent does not start: %w", err)
		}
	}
}

// startSSHLoop is what people without an agent write: ssh in a loop.
func (t *testbed) startSSHLoop(ctx context.Context) (*supervised, error) {
	port, err := ground.FreePort()
	if err != nil {
		return nil, err
	}
	forward := fmt.Sprintf("%d:%s", port, t.servers.echo.Addr())
	s := supervise(ctx, fmt.Sprintf("127.0.0.1:%d", port), func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "ssh", "-F", t.config, "-N", "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=30", "-L", forward, "fast")
	})
	return s, s.await(ctx)
}
