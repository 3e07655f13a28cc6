//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"time"

	"tunctl/internal/dev/bench/table"
	"tunctl/internal/dev/tunneltest"
	"tunctl/tunnel"
)

// logins is how many times each side logs in.
const logins = 5

// measureLogin logs in and runs a command, by ssh and by a pool of hosts, and counts
// the round trips from the dial to the command's answer: what the slow link takes
// longer than the fast one, so that processes and ciphers do not count.
func measureLogin(ctx context.Context, t *testbed) ([]table.Row, error) {
	const theirs, ours, up = "ssh", "tunctl", "up"
	fast, slow := table.Samples{}, table.Samples{}
	for range logins {
		for host, times := range map[string]table.Samples{"fast": fast, "slow": slow} {
			began := time.Now()
			if out, err := exec.CommandContext(ctx, "ssh", "-F", t.config, host, "true").CombinedOutput(); err != nil {
				return nil, fmt.Errorf("ssh: %w: %s", err, out)
			}
			times.Add(theirs, float64(time.Since(began)))
			connected, answered, err := logIn(ctx, t.config, host)
			if err != nil {
				return nil, err
			}
			times.Add(up, float64(connected))
			times.Add(ours, float64(answered))
		}
	}
	trips := func(side string) float64 { return (slow.Median(side) - fast.Median(side)) / float64(rtt) }
	return []table.Row{
		table.AtMost("dial to a first command's answer", "ssh HOST true", "round trips", trips(theirs), trips(ours), 1),
		{Measure: "dial to a usable connection", Ours: trips(up), Unit: "round trips", Goal: "≤ 8", Reached: math.Round(trips(up)) <= 8},
	}, nil
}

// logIn connects a pool of its own and tells how long that and a first command took.
func logIn(ctx context.Context, config, host string) (connected, answered time.Duration, err error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	pool := tunneltest.NewPool(config, tunnel.Options{Limits: tunnel.DefaultLimits()})
	done := make(chan error, 1)
	go func() { done <- pool.Serve(ctx) }()
	defer func() {
		stop()
		<-done
	}()
	began := time.Now()
	h := pool.Host(host)
	h.Up()
	if err := h.Await(ctx); err != nil {
		return 0, 0, err
	}
	connected = time.Since(began)
	_, err = h.Run(ctx, "true", nil)
	return connected, time.Since(began), err
}
