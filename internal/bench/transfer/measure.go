//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const rounds = 3

// side is a command that is timed; clean removes what it made.
type side func(ctx context.Context) *exec.Cmd

// compare takes turns and returns the medians.
func compare(ctx context.Context, clean string, theirs, ours side) (a, b time.Duration, err error) {
	var x, y []time.Duration
	for range rounds {
		for _, s := range []struct {
			run   side
			times *[]time.Duration
		}{{theirs, &x}, {ours, &y}} {
			if clean != "" {
				if err := os.RemoveAll(clean); err != nil {
					return 0, 0, err
				}
			}
			cmd := s.run(ctx)
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return 0, 0, fmt.Errorf("%q: %w\n%s", cmd.Args, err, out)
			}
			*s.times = append(*s.times, time.Since(start))
		}
	}
	slices.Sort(x)
	slices.Sort(y)
	return x[rounds/2], y[rounds/2], nil
}

// large copies one file up and down.
func (g *ground) large(ctx context.Context, host, way string, mb int64, up, down float64) ([]row, error) {
	src, dst := filepath.Join(g.dir, "large"), filepath.Join(g.dir, "copied")
	if err := randomFile(src, mb<<20); err != nil {
		return nil, err
	}
	rows := make([]row, 0, 2)
	for _, d := range []struct {
		name     string
		goal     float64
		from, to string
	}{{"up", up, src, host + ":" + dst}, {"down", down, host + ":" + src, dst}} {
		fmt.Fprintf(os.Stderr, "bench: %d MB %s, %s\n", mb, d.name, way)
		theirs, ours, err := compare(ctx, dst,
			func(ctx context.Context) *exec.Cmd { return g.run(ctx, "scp", "-q", "-F", g.config, d.from, d.to) },
			func(ctx context.Context) *exec.Cmd { return g.run(ctx, g.tunctl, "cp", "-q", d.from, d.to) })
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{fmt.Sprintf("%d MB %s, %s", mb, d.name, way), "scp", theirs, ours, d.goal})
	}
	return rows, nil
}

// scpFiles is how many of the small files scp is given: all of them would take minutes.
const scpFiles = 50

// small copies many small files.
func (g *ground) small(ctx context.Context, n int) ([]row, error) {
	all, few, dst := filepath.Join(g.dir, "all"), filepath.Join(g.dir, "few"), filepath.Join(g.dir, "copied")
	for dir, count := range map[string]int{all: n, few: scpFiles} {
		for i := range count {
			if err := randomFile(filepath.Join(dir, fmt.Sprint(i)), 4<<10); err != nil {
				return nil, err
			}
		}
	}
	fmt.Fprintln(os.Stderr, "bench: small files, 50 ms")
	theirs, ours, err := compare(ctx, dst,
		func(ctx context.Context) *exec.Cmd {
			return g.run(ctx, "scp", "-q", "-r", "-F", g.config, few, "mid:"+dst)
		},
		func(ctx context.Context) *exec.Cmd { return g.run(ctx, g.tunctl, "cp", "-q", all, "mid:"+dst) })
	theirs = theirs * time.Duration(n) / scpFiles
	return []row{{fmt.Sprintf("%d files of 4 kB, 50 ms", n), fmt.Sprintf("scp -r (%d files, scaled)", scpFiles), theirs, ours, 50}}, err
}

// command runs `true` over a new login, over a ControlMaster, and over ours.
func (g *ground) command(ctx context.Context) ([]row, error) {
	fmt.Fprintln(os.Stderr, "bench: a command, 100 ms")
	socket := filepath.Join(g.dir, "master")
	master := g.run(ctx, "ssh", "-F", g.config, "-M", "-N", "-f", "-S", socket, "slow")
	if out, err := master.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ControlMaster: %w\n%s", err, out)
	}
	defer func() {
		_ = g.run(context.WithoutCancel(ctx), "ssh", "-F", g.config, "-S", socket, "-O", "exit", "slow").Run()
	}()
	tun := func(ctx context.Context) *exec.Cmd { return g.run(ctx, "ssh", "-F", g.config, "slow.tun", "true") }
	login, ours, err := compare(ctx, "", func(ctx context.Context) *exec.Cmd {
		return g.run(ctx, "ssh", "-F", g.config, "slow", "true")
	}, tun)
	if err != nil {
		return nil, err
	}
	ridden, again, err := compare(ctx, "", func(ctx context.Context) *exec.Cmd {
		return g.run(ctx, "ssh", "-F", g.config, "-S", socket, "slow", "true")
	}, tun)
	return []row{
		{"ssh HOST.tun true, 100 ms", "ssh (a new login)", login, ours, 1 / 0.35},
		{"ssh HOST.tun true, 100 ms", "ssh over ControlMaster", ridden, again, 1 / 1.2},
	}, err
}

func randomFile(name string, size int64) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
