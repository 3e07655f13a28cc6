//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

// pages measures how long a notebook's page takes to answer while a copy runs beside
// it, on a long link and on a narrow one, against the same page in peace.
func (g *field) pages(ctx context.Context, mb int64) ([]table.Row, error) {
	server, err := newPage()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }()
	src := filepath.Join(g.dir, "large")
	if err := randomFile(src, mb<<20); err != nil {
		return nil, err
	}
	var rows []table.Row
	for _, w := range []struct{ host, way string }{{slow, "100 ms"}, {narrow, "100 Mbit/s, 20 ms"}} {
		local, err := g.forward(ctx, w.host, server.Addr)
		if err != nil {
			return rows, err
		}
		idle, err := firstBytes(ctx, local)
		if err != nil {
			return rows, err
		}
		for _, d := range []struct{ name, from, to string }{
			{"up", src, w.host + ":" + filepath.Join(g.dir, "copied")},
			{"down", w.host + ":" + src, filepath.Join(g.dir, "copied")},
		} {
			busy, err := g.beside(ctx, local, d.from, d.to)
			if err != nil {
				return rows, err
			}
			rows = append(rows, table.AtMost(fmt.Sprintf("first byte (p95) while copying %s, %s", d.name, w.way), "idle", "ms", idle, busy, 2))
		}
	}
	return rows, nil
}

// newPage is a server beyond the host.
func newPage() (*http.Server, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{
		Addr: l.Addr().String(), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<10)) }),
	}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, nil
}

// forward forwards a local port to the page over a host.
func (g *field) forward(ctx context.Context, host, page string) (string, error) {
	port, err := ground.FreePort()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", port), g.must(ctx, "forward", host, fmt.Sprintf("%d:%s", port, page))
}

// beside copies, again and again, and measures meanwhile.
func (g *field) beside(ctx context.Context, local, from, to string) (float64, error) {
	copying, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		for copying.Err() == nil {
			if out, err := g.run(copying, g.tunctl, "cp", "-q", from, to).CombinedOutput(); err != nil && copying.Err() == nil {
				failed <- fmt.Errorf("tunctl cp: %w\n%s", err, out)
				break
			}
		}
		close(failed)
	}()
	p95, err := firstBytes(ctx, local)
	stop()
	return p95, cmp.Or(err, <-failed)
}

const (
	visits = 60                     // of the page
	settle = 1 * time.Second        // before the first: a copy has to get going
	apart  = 100 * time.Millisecond // so that a visit does not meet the one before
)

// firstBytes visits a page many times and returns the 95th percentile of the times to
// its first byte, in milliseconds.
func firstBytes(ctx context.Context, local string) (float64, error) {
	const each = "each"
	took := table.Samples{}
	wait := settle
	for range visits {
		if err := ctxtime.Sleep(ctx, wait); err != nil {
			return 0, err
		}
		wait = apart
		d, err := firstByte(ctx, local)
		if err != nil {
			return 0, err
		}
		took.Add(each, float64(d)/float64(time.Millisecond))
	}
	return took.P95(each), nil
}

// firstByte visits a page by a connection of its own, as a browser does.
func firstByte(ctx context.Context, local string) (time.Duration, error) {
	begun := time.Now()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", local)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if _, err = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err == nil {
		_, err = bufio.NewReader(c).ReadByte()
	}
	return time.Since(begun), err
}
