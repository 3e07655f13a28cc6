//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
	"tunctl/internal/dev/tunneltest"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
)

// silentLink is the number of the link that falls silent: those of the testbed have lower ones.
const silentLink = 8

// outage is a loss without a word, which no change of the network tells.
type outage struct {
	name       string
	config     string // an ssh_config with a host "fickle"
	begin, end func()
	goal       time.Duration // until it is shown
}

// stallTimes are how soon an outage is shown, and how soon the forward carries bytes
// again after its end.
type stallTimes struct{ shown, back time.Duration }

// measureStalls has the network fall silent, and the login node freeze, while a client
// sends through the forward. The peer is ssh in a loop, with the settings that sites
// advise; it shows an outage by its end. tunctl's side runs with the limits of real
// hosts, as if the last login were long ago.
func measureStalls(ctx context.Context, t *testbed) ([]table.Row, error) {
	outages, closeAll, err := newOutages(ctx, t.dir)
	defer closeAll()
	if err != nil {
		return nil, err
	}
	rows, errs := make([][]table.Row, len(outages)), make([]error, len(outages))
	var wg sync.WaitGroup
	for i, o := range outages {
		wg.Go(func() { rows[i], errs[i] = o.measure(ctx, t.servers.echo.Addr().String()) })
	}
	wg.Wait()
	var all []table.Row
	for _, r := range rows {
		all = append(all, r...)
	}
	return all, errors.Join(errs...)
}

// newOutages makes a server for each outage, which nothing else uses.
func newOutages(ctx context.Context, dir string) (all []outage, closeAll func(), err error) {
	var closes []func()
	closeAll = func() {
		for _, f := range closes {
			f()
		}
	}
	serve := func(name string, way ground.Way) (*ground.Server, string, error) {
		own := filepath.Join(dir, name)
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, "", err
		}
		s, err := ground.Serve(ctx, own, "SetEnv HOME="+own)
		if err != nil {
			return nil, "", err
		}
		closes = append(closes, s.Close)
		config := filepath.Join(own, "ssh_config")
		return s, config, s.WriteConfig(config, way)
	}
	s, config, err := serve("frozen", ground.Way{Name: "fickle", Address: "127.0.0.1"})
	if err != nil {
		return nil, closeAll, err
	}
	all = append(all, outage{"a frozen login node", config, s.Freeze, s.Thaw, 15 * time.Second})
	link, err := ground.NewLink(ctx, silentLink, rtt/10, 0, 0)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: no silent network is measured: %v\n", err)
		return all, closeAll, nil
	}
	closes = append(closes, link.Close)
	_, config, err = serve("silent", ground.Way{Name: "fickle", Address: link.Address()})
	begin, end := func() { link.Silence(true) }, func() { link.Silence(false) }
	return append(all, outage{"a silent network", config, begin, end, 10 * time.Second}), closeAll, err
}

func (o outage) measure(ctx context.Context, target string) ([]table.Row, error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	host, mine, err := o.startOurs(ctx, &running, target)
	if err != nil {
		return nil, err
	}
	ended, theirs, err := o.startPeer(ctx, &running, target)
	if err != nil {
		return nil, err
	}
	for _, address := range []string{mine, theirs} {
		if _, err := returned(ctx, address, time.Now()); err != nil {
			return nil, err
		}
		running.Go(func() { // a client that does not give up
			for ctx.Err() == nil {
				answers(ctx, address)
				_ = ctxtime.Sleep(ctx, 200*time.Millisecond)
			}
		})
	}
	o.begin()
	began := time.Now()
	var ours, peer stallTimes
	if ours.shown, err = notResponding(ctx, host, began); err != nil {
		return nil, err
	}
	select {
	case <-ended:
		peer.shown = time.Since(began)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := ctxtime.Sleep(ctx, 5*time.Second); err != nil { // both are in the middle of it
		return nil, err
	}
	o.end()
	began = time.Now()
	var back sync.WaitGroup
	var errs [2]error
	back.Go(func() { ours.back, errs[0] = returned(ctx, mine, began) })
	back.Go(func() { peer.back, errs[1] = returned(ctx, theirs, began) })
	back.Wait()
	const name = "ssh in a loop, 30 s × 3"
	within := func(measure string, theirs, ours, goal time.Duration) table.Row {
		return table.Row{
			Measure: measure, Peer: name, Theirs: theirs.Seconds(), Ours: ours.Seconds(), Unit: "s",
			Goal: fmt.Sprintf("≤ %.0f s", goal.Seconds()), Reached: ours <= goal,
		}
	}
	return []table.Row{
		within(o.name+", in use: shown after", peer.shown, ours.shown, o.goal),
		within("… back: ready after", peer.back, ours.back, 20*time.Second),
	}, errors.Join(errs[:]...)
}

// startOurs forwards a port to the target through the host of the outage.
func (o outage) startOurs(ctx context.Context, running *sync.WaitGroup, target string) (*tunnel.Host, string, error) {
	limits := tunnel.DefaultLimits()
	limits.StableAfter, limits.LoginSpacing = time.Millisecond, time.Millisecond
	pool := tunneltest.NewPool(o.config, tunnel.Options{Limits: limits})
	running.Go(func() { _ = pool.Serve(ctx) })
	h := pool.Host("fickle")
	h.Up()
	waiting, stop := context.WithTimeout(ctx, waitReady)
	defer stop()
	if err := h.Await(waiting); err != nil {
		return nil, "", err
	}
	f, err := forward.Listen(forward.ListenOptions{Name: "bench", Waiting: h.Waiting})
	if err != nil {
		return nil, "", err
	}
	running.Go(func() { _ = f.Serve(ctx) })
	f.Open(forward.Target{Dialer: h, Network: "tcp", Address: target})
	return h, f.Addr().String(), nil
}

// startPeer runs ssh in a loop. What it returns receives whenever an ssh has ended.
func (o outage) startPeer(ctx context.Context, running *sync.WaitGroup, target string) (<-chan struct{}, string, error) {
	port, err := ground.FreePort()
	if err != nil {
		return nil, "", err
	}
	loop := fmt.Sprintf("while :; do ssh -F %s -N -o ExitOnForwardFailure=yes -o ServerAliveInterval=30 -o ServerAliveCountMax=3 -L %d:%s fickle 2>/dev/null; echo ended; sleep 1; done",
		o.config, port, target)
	cmd := ground.Group(exec.CommandContext(ctx, "sh", "-c", loop))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	ended := make(chan struct{}, 1)
	running.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case ended <- struct{}{}:
			default:
			}
		}
		_ = cmd.Wait()
	})
	return ended, fmt.Sprintf("127.0.0.1:%d", port), nil
}

// notResponding is how long after a moment a host is shown as not responding.
func notResponding(ctx context.Context, h *tunnel.Host, since time.Time) (time.Duration, error) {
	for {
		changed := h.Changed()
		if !h.Status().NotRespondingSince.IsZero() {
			return time.Since(since), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
