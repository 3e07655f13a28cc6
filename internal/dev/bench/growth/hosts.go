//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

const (
	settle    = 2 * time.Second // after all sessions are ready
	span      = 5 * time.Second // in which the processor is watched
	questions = 9               // `status` is asked so often; the quickest counts
)

// measureHosts holds sessions on many hosts and does nothing.
func measureHosts(ctx context.Context) ([]table.Growth, error) {
	var rows []table.Growth
	for _, sessions := range []int{1, 10} {
		measures := []table.Growth{
			{Measure: fmt.Sprintf("hosts × %d, memory", sessions), Unit: "MB"},
			{Measure: fmt.Sprintf("hosts × %d, goroutines", sessions)},
			{Measure: fmt.Sprintf("hosts × %d, processor while idle", sessions), Unit: "ms/s"},
			{Measure: fmt.Sprintf("hosts × %d, one status", sessions), Unit: "ms"},
			{Measure: fmt.Sprintf("hosts × %d, all up", sessions), Unit: "s"},
		}
		for _, hosts := range []int{1, 10, 100} {
			costs, err := holdHosts(ctx, hosts, sessions)
			if err != nil {
				return rows, fmt.Errorf("%d × %d: %w", hosts, sessions, err)
			}
			for i := range measures {
				measures[i].Sizes = append(measures[i].Sizes, float64(hosts))
				measures[i].Costs = append(measures[i].Costs, costs[i])
			}
		}
		rows = append(rows, measures...)
	}
	return rows, nil
}

// holdHosts returns the costs in the order of measureHosts.
func holdHosts(ctx context.Context, hosts, sessions int) ([]float64, error) {
	began := time.Now()
	r, err := startAgent(ctx, hosts, sessions, "127.0.0.1:9") // nobody connects
	if err != nil {
		return nil, err
	}
	defer r.stop()
	up := time.Since(began)
	if err := ctxtime.Sleep(ctx, settle); err != nil {
		return nil, err
	}
	before, err := ground.CPU(r.pid())
	if err != nil {
		return nil, err
	}
	if err := ctxtime.Sleep(ctx, span); err != nil {
		return nil, err
	}
	after, err := ground.CPU(r.pid())
	if err != nil {
		return nil, err
	}
	memory, err := ground.Memory(r.pid())
	if err != nil {
		return nil, err
	}
	goroutines, err := r.goroutines()
	if err != nil {
		return nil, err
	}
	status := math.Inf(1)
	for range questions {
		asked := time.Now()
		if _, err := r.client.Status(ctx); err != nil {
			return nil, err
		}
		status = min(status, float64(time.Since(asked))/float64(time.Millisecond))
	}
	idle := float64(after-before) / float64(time.Millisecond) / span.Seconds()
	return []float64{memory / 1e6, goroutines, idle, status, up.Seconds()}, nil
}
