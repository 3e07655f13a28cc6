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
	"time"

	"tunctl/internal/dev/bench/table"
)

// rounds is how often each side is timed.
const rounds = 3

// side is a command that is timed; clean removes what it made.
type side func(ctx context.Context) *exec.Cmd

// compare takes turns and returns the medians, in seconds.
func compare(ctx context.Context, clean string, rounds int, theirs, ours side) (a, b float64, err error) {
	took := table.Samples{}
	for range rounds {
		for name, run := range map[string]side{"theirs": theirs, "ours": ours} {
			if clean != "" {
				if err := os.RemoveAll(clean); err != nil {
					return 0, 0, err
				}
			}
			cmd := run(ctx)
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return 0, 0, fmt.Errorf("%q: %w\n%s", cmd.Args, err, out)
			}
			took.Add(name, time.Since(start).Seconds())
		}
	}
	return took.Median("theirs"), took.Median("ours"), nil
}

// large copies one file up and down.
func (g *field) large(ctx context.Context, host, way string, mb int64, up, down float64) ([]table.Row, error) {
	src, dst := filepath.Join(g.dir, "large"), filepath.Join(g.dir, "copied")
	if err := randomFile(src, mb<<20); err != nil {
		return nil, err
	}
	rows := make([]table.Row, 0, 2)
	for _, d := range []struct {
		name     string
		goal     float64
		from, to string
	}{{"up", up, src, host + ":" + dst}, {"down", down, host + ":" + src, dst}} {
		theirs, ours, err := compare(ctx, dst, rounds,
			func(ctx context.Context) *exec.Cmd { return g.run(ctx, "scp", "-q", "-F", g.config, d.from, d.to) },
			func(ctx context.Context) *exec.Cmd { return g.run(ctx, g.tunctl, "cp", "-q", d.from, d.to) })
		if err != nil {
			return nil, err
		}
		rows = append(rows, table.AtLeast(fmt.Sprintf("%d MB %s, %s", mb, d.name, way), "scp", "MB/s", float64(mb)/theirs, float64(mb)/ours, d.goal))
	}
	return rows, nil
}

// scpFiles is how many of the small files scp is given: all of them would take minutes.
const scpFiles = 50

// small copies many small files.
func (g *field) small(ctx context.Context, n int) ([]table.Row, error) {
	all, few, dst := filepath.Join(g.dir, "all"), filepath.Join(g.dir, "few"), filepath.Join(g.dir, "copied")
	for dir, count := range map[string]int{all: n, few: scpFiles} {
		for i := range count {
			if err := randomFile(filepath.Join(dir, fmt.Sprint(i)), 4<<10); err != nil {
				return nil, err
			}
		}
	}
	theirs, ours, err := compare(ctx, dst, rounds,
		func(ctx context.Context) *exec.Cmd {
			return g.run(ctx, "scp", "-q", "-r", "-F", g.config, few, mid+":"+dst)
		},
		func(ctx context.Context) *exec.Cmd { return g.run(ctx, g.tunctl, "cp", "-q", all, mid+":"+dst) })
	if err != nil {
		return nil, err
	}
	return []table.Row{table.AtLeast(fmt.Sprintf("%d files of 4 kB, 50 ms", n), fmt.Sprintf("scp -r of %d", scpFiles), "files/s", scpFiles/theirs, float64(n)/ours, 50)}, nil
}

// command runs `true` over a new login, over a ControlMaster, and over ours.
func (g *field) command(ctx context.Context) ([]table.Row, error) {
	socket := filepath.Join(g.dir, "master")
	master := g.run(ctx, "ssh", "-F", g.config, "-M", "-N", "-f", "-S", socket, slow)
	if out, err := master.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ControlMaster: %w\n%s", err, out)
	}
	defer func() {
		_ = g.run(context.WithoutCancel(ctx), "ssh", "-F", g.config, "-S", socket, "-O", "exit", slow).Run()
	}()
	tun := func(ctx context.Context) *exec.Cmd { return g.run(ctx, "ssh", "-F", g.config, slow+".tun", "true") }
	login, ours, err := compare(ctx, "", rounds*rounds, func(ctx context.Context) *exec.Cmd {
		return g.run(ctx, "ssh", "-F", g.config, slow, "true")
	}, tun)
	if err != nil {
		return nil, err
	}
	ridden, again, err := compare(ctx, "", rounds*rounds, func(ctx context.Context) *exec.Cmd {
		return g.run(ctx, "ssh", "-F", g.config, "-S", socket, slow, "true")
	}, tun)
	return []table.Row{
		table.AtMost("ssh HOST.tun true, 100 ms", "ssh (a new login)", "s", login, ours, 0.35),
		table.AtMost("ssh HOST.tun true, 100 ms", "ssh over ControlMaster", "s", ridden, again, 1.2),
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
