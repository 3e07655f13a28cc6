//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

// answerLimit is how long a connection may take to answer: with thousands, sshd is busy.
const answerLimit = 2 * time.Minute

// measureConnections holds connections through one forward.
func measureConnections(ctx context.Context) ([]table.Growth, error) {
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go serveEcho(l) // ends with Close
	defer func() { _ = l.Close() }()
	memory := table.Growth{Measure: "connections, memory", Unit: "MB"}
	opened := table.Growth{Measure: "connections, processor until all answered", Unit: "ms"}
	for _, n := range []int{1, 10, 100, 1000, 5000} {
		mb, took, err := hold(ctx, n, l.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		memory.Sizes, memory.Costs = append(memory.Sizes, float64(n)), append(memory.Costs, mb)
		opened.Sizes, opened.Costs = append(opened.Sizes, float64(n)), append(opened.Costs, float64(took)/float64(time.Millisecond))
	}
	return []table.Growth{memory, opened}, nil
}

// hold opens connections through a new agent's forward, and returns what they cost the
// agent. How long that takes is up to sshd, which looks at all its sockets at each event.
func hold(ctx context.Context, n int, target string) (mb float64, took time.Duration, err error) {
	r, err := startAgent(ctx, 1, 1, target)
	if err != nil {
		return 0, 0, err
	}
	defer r.stop()
	began, err := ground.CPU(r.pid())
	if err != nil {
		return 0, 0, err
	}
	conns := make([]net.Conn, n)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	errs := make(chan error, n)
	lanes := make(chan struct{}, 50) // as many as come at the same instant
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			lanes <- struct{}{}
			defer func() { <-lanes }()
			var err error
			if conns[i], err = askOnce(ctx, r.ports[0]); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	if len(errs) > 0 {
		return 0, 0, fmt.Errorf("%d were lost: %w", len(errs), <-errs)
	}
	ended, err := ground.CPU(r.pid())
	if err != nil {
		return 0, 0, err
	}
	memory, err := ground.Memory(r.pid())
	return memory / 1e6, ended - began, err
}

// askOnce opens a connection that answered once.
func askOnce(ctx context.Context, port int) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(answerLimit))
	word := []byte("tunctl")
	if _, err = c.Write(word); err == nil {
		_, err = io.ReadFull(c, word)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func serveEcho(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			// Between two sockets it would take a pipe, and thousands of files.
			_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
		}()
	}
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
