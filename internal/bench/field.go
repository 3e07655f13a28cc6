//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tunctl/internal/bench/ground"
)

const (
	hosts = 20                     // that are held idle
	rtt   = 100 * time.Millisecond // of the slow link
)

// field is what a bench stands on: a real sshd, a slow way to it, and servers behind it.
type field struct {
	dir    string
	config string // the ssh_config for both sides
	sshd   *ground.Server
	slow   *ground.Proxy // to the same sshd, with a round trip; nil where link is
	link   *ground.Link  // the same by the kernel's own TCP; nil where one may not
	fickle *ground.Proxy // to the same sshd; it can lose its connections in silence
	far    *farSide
}

func newField(ctx context.Context) (*field, error) {
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	g := &field{dir: dir, config: filepath.Join(dir, "ssh_config")}
	if err := g.start(ctx); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *field) start(ctx context.Context) (err error) {
	if g.sshd, err = ground.Serve(ctx, g.dir, "MaxStartups 200", "SetEnv HOME="+g.dir); err != nil {
		return err
	}
	slow := ground.Way{Name: "slow", Address: ground.FarEnd}
	if g.link, err = ground.NewLink(ctx, rtt/2); err != nil {
		fmt.Fprintf(os.Stderr, "bench: the slow link is a proxy, which hides some of what one costs: %v\n", err)
		if g.slow, err = ground.NewProxy(g.sshd.Address(), rtt/2, 0); err != nil {
			return err
		}
		slow = ground.Way{Name: "slow", Address: "127.0.0.1", Port: g.slow.Port()}
	}
	if g.fickle, err = ground.NewProxy(g.sshd.Address(), 0, 0); err != nil {
		return err
	}
	if g.far, err = newFarSide(); err != nil {
		return err
	}
	// Each of the idle hosts has an address of its own.
	ways := []ground.Way{{Name: "fast", Address: "127.0.0.1"}, slow, {Name: "fickle", Address: "127.0.0.1", Port: g.fickle.Port()}}
	for i := range hosts {
		ways = append(ways, ground.Way{Name: idleHost(i), Address: fmt.Sprintf("127.0.1.%d", i+1)})
	}
	return g.sshd.WriteConfig(g.config, ways...)
}

func idleHost(i int) string { return fmt.Sprintf("idle%d", i) }

func (g *field) close() {
	g.sshd.Close()
	g.slow.Close()
	g.link.Close()
	g.fickle.Close()
	g.far.close()
	_ = os.RemoveAll(g.dir)
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
