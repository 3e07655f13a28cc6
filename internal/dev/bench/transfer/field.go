//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"tunctl/internal/dev/bench/ground"
)

// field is what this bench stands on: a real sshd, slow ways to it, and an agent that
// is logged in over all of them.
type field struct {
	dir, config, tunctl string
	sshd                *ground.Server
	proxies             []*ground.Proxy
}

// The ways to the server, by the names that both sides use.
const (
	fast   = "fast"   // loopback
	slow   = "slow"   // 100 ms, as wide as can be
	mid    = "mid"    // 50 ms
	narrow = "narrow" // 100 Mbit/s at 20 ms, where a copy fills the link's own queue
)

func newField(ctx context.Context, program string) (*field, error) {
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	g := &field{dir: dir, config: filepath.Join(dir, "ssh_config")}
	if g.tunctl, err = filepath.Abs(program); err == nil {
		err = g.start(ctx)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *field) start(ctx context.Context) (err error) {
	// A home of its own: what the user's .bashrc takes is not to be measured.
	if g.sshd, err = ground.Serve(ctx, g.dir, "Subsystem sftp internal-sftp", "SetEnv HOME="+g.dir); err != nil {
		return err
	}
	ways := []ground.Way{{Name: fast, Address: "127.0.0.1"}}
	for _, w := range []struct {
		name  string
		rtt   time.Duration
		limit int64
	}{{slow, 100 * time.Millisecond, 0}, {mid, 50 * time.Millisecond, 0}, {narrow, 20 * time.Millisecond, 100e6 / 8}} {
		p, err := ground.NewProxy(g.sshd.Address(), w.rtt/2, w.limit)
		if err != nil {
			return err
		}
		g.proxies = append(g.proxies, p)
		ways = append(ways, ground.Way{Name: w.name, Address: "127.0.0.1", Port: p.Port()})
	}
	if err := g.sshd.WriteConfig(g.config, ways...); err != nil {
		return err
	}
	if err := g.must(ctx, "ssh-config", "install"); err != nil {
		return err
	}
	for _, w := range ways {
		if err := g.must(ctx, "login", w.Name); err != nil {
			return err
		}
	}
	return nil
}

// must runs tunctl.
func (g *field) must(ctx context.Context, args ...string) error {
	if out, err := g.run(ctx, g.tunctl, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("tunctl %s: %w\n%s", args, err, out)
	}
	return nil
}

// run is a command in the bench's own home.
func (g *field) run(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "TUNCTL_HOME="+filepath.Join(g.dir, "home"), "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG="+g.config)
	return cmd
}

func (g *field) close() {
	if g.tunctl != "" {
		_ = g.run(context.Background(), g.tunctl, "agent", "stop").Run() // where there is none, nothing is to be done
	}
	g.sshd.Close()
	for _, p := range g.proxies {
		p.Close()
	}
	_ = os.RemoveAll(g.dir)
}
