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

	"tunctl/internal/dev/bench/ground"
)

const (
	hosts = 20                     // that are held idle
	rtt   = 100 * time.Millisecond // of the slow link

	narrowRTT   = 20 * time.Millisecond
	narrowLimit = 100e6 / 8 // bytes a second
)

// testbed is a real sshd, a slow link to it, and servers behind it.
type testbed struct {
	dir     string
	config  string // the ssh_config for both sides
	program string // tunctl, built from what is here
	sshd    *ground.Server
	proxies []*ground.Proxy // slow ways to the same sshd, where there may be no links
	links   []*ground.Link  // the same by the kernel's own TCP
	fickle  *ground.Proxy   // to the same sshd; it can lose its connections in silence
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
	slow, err := t.way(ctx, "slow", rtt, 0)
	if err != nil {
		return err
	}
	narrow, err := t.way(ctx, "narrow", narrowRTT, narrowLimit)
	if err != nil {
		return err
	}
	if t.fickle, err = ground.NewProxy(t.sshd.Address(), 0, 0); err != nil {
		return err
	}
	if t.servers, err = newServers(); err != nil {
		return err
	}
	// Each of the idle hosts has an address of its own.
	ways := []ground.Way{{Name: "fast", Address: "127.0.0.1"}, slow, narrow, {Name: "fickle", Address: "127.0.0.1", Port: t.fickle.Port()}}
	for i := range hosts {
		ways = append(ways, ground.Way{Name: idleHost(i), Address: fmt.Sprintf("127.0.1.%d", i+1)})
	}
	return t.sshd.WriteConfig(t.config, ways...)
}

// way makes a slow way to the sshd: a link where one may, else a proxy.
func (t *testbed) way(ctx context.Context, name string, rtt time.Duration, limit int64) (ground.Way, error) {
	link, err := ground.NewLink(ctx, len(t.links), rtt/2, limit, t.sshd.Port())
	if err == nil {
		t.links = append(t.links, link)
		return ground.Way{Name: name, Address: link.Address()}, nil
	}
	fmt.Fprintf(os.Stderr, "bench: the %s link is a proxy, which hides some of what one costs: %v\n", name, err)
	proxy, err := ground.NewProxy(t.sshd.Address(), rtt/2, limit)
	if err != nil {
		return ground.Way{}, err
	}
	t.proxies = append(t.proxies, proxy)
	return ground.Way{Name: name, Address: "127.0.0.1", Port: proxy.Port()}, nil
}

func idleHost(i int) string { return fmt.Sprintf("idle%d", i) }

func (t *testbed) close() {
	t.sshd.Close()
	for _, p := range t.proxies {
		p.Close()
	}
	for _, l := range t.links {
		l.Close()
	}
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
