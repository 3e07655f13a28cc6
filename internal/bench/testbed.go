//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"tunctl/internal/bench/ground"
)

const (
	hosts = 20                     // that are held idle
	rtt   = 100 * time.Millisecond // of the slow link
)

// testbed is a real sshd, a slow link to it, and servers behind it.
type testbed struct {
	dir     string
	config  string // the ssh_config for both sides
	program string // tunctl, built from what is here
	sshd    *ground.Server
	slow    *ground.Proxy // to the same sshd, with a round trip; nil where link is
	link    *ground.Link  // the same by the kernel's own TCP; nil where one may not
	fickle  *ground.Proxy // to the same sshd; it can lose its connections in silence
	servers *servers
}

func newTestbed(ctx context.Context) (*testbed, error) {
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	t := &testbed{dir: dir, config: filepath.Join(dir, "ssh_config"), program: filepath.Join(dir, "tunctl")}
	if err := t.start(ctx); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *testbed) start(ctx context.Context) (err error) {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", t.program, "tunctl/cmd/tunctl").CombinedOutput(); err != nil {
		return fmt.Errorf("build tunctl: %w: %s", err, out)
	}
	if t.sshd, err = ground.Serve(ctx, t.dir, "MaxStartups 200", "SetEnv HOME="+t.dir); err != nil {
		return err
	}
	slow := ground.Way{Name: "slow", Address: ground.FarEnd}
	if t.link, err = ground.NewLink(ctx, rtt/2); err != nil {
		fmt.Fprintf(os.Stderr, "bench: the slow link is a proxy, which hides some of what one costs: %v\n", err)
		if t.slow, err = ground.NewProxy(t.sshd.Address(), rtt/2, 0); err != nil {
			return err
		}
		slow = ground.Way{Name: "slow", Address: "127.0.0.1", Port: t.slow.Port()}
	}
	if t.fickle, err = ground.NewProxy(t.sshd.Address(), 0, 0); err != nil {
		return err
	}
	if t.servers, err = newServers(); err != nil {
		return err
	}
	// Each of the idle hosts has an address of its own.
	ways := []ground.Way{{Name: "fast", Address: "127.0.0.1"}, slow, {Name: "fickle", Address: "127.0.0.1", Port: t.fickle.Port()}}
	for i := range hosts {
		ways = append(ways, ground.Way{Name: idleHost(i), Address: fmt.Sprintf("127.0.1.%d", i+1)})
	}
	return t.sshd.WriteConfig(t.config, ways...)
}

func idleHost(i int) string { return fmt.Sprintf("idle%d", i) }

func (t *testbed) close() {
	t.sshd.Close()
	t.slow.Close()
	t.link.Close()
	t.fickle.Close()
	t.servers.close()
	_ = os.RemoveAll(t.dir)
}

// raiseFileLimit allows thousands of connections, here and in what is started.
func raiseFileLimit() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Cur = l.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}
