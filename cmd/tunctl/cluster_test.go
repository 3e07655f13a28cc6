package main

import (
	"bufio"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tunctl/internal/lab"
)

// clusters are the scripts' practice clusters, by script.
var clusters sync.Map

func clusterOf(ts *testscript.TestScript) *lab.Cluster {
	c, ok := clusters.Load(ts.Name() + ts.MkAbs(""))
	if !ok {
		ts.Fatalf("the script has no cluster yet")
	}
	return c.(*lab.Cluster)
}

// extendLater gives a job an hour as soon as another is submitted, however long the
// script takes to get there: extend 1002 1003.
func extendLater(ts *testscript.TestScript, _ bool, args []string) {
	c := clusterOf(ts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- extendWhen(ctx, c, args[0], args[1]) }()
	ts.Defer(func() {
		cancel()
		ts.Check(<-done)
	})
}

func extendWhen(ctx context.Context, c *lab.Cluster, id, submitted string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if slices.ContainsFunc(c.Jobs(), func(j lab.Job) bool { return j.ID == submitted }) {
			return c.SetLimit(id, time.Hour)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// waitForWords reads lines until one has all the words.
func waitForWords(r io.Reader, words []string) bool {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		missing := 0
		for _, w := range words {
			if !strings.Contains(lines.Text(), w) {
				missing++
			}
		}
		if missing == 0 {
			return true
		}
	}
	return false
}
