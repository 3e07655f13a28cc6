//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

// connection is a browser's: requests go out one after another.
type connection struct {
	net.Conn
	read *bufio.Reader
}

func dialPage(ctx context.Context, address string) (*connection, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() }) // no answer is waited for longer
	return &connection{c, bufio.NewReader(c)}, nil
}

func (c *connection) request(size int) error {
	_, err := fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", size)
	return err
}

// get fetches one asset.
func (c *connection) get(size int) error {
	if err := c.request(size); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.read, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

// measureFirstByte opens a new connection, as a browser does while a page is in use,
// and waits for the first byte of the answer.
func measureFirstByte(ctx context.Context, t *testbed) ([]table.Row, error) {
	all, stop, err := t.sides(ctx, "slow", "http", t.servers.pageAt, false)
	if err != nil {
		return nil, err
	}
	defer stop()
	first := table.Samples{}
	for round := range rounds + 3 {
		for _, s := range all {
			took, err := firstByte(ctx, s.address)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one comes to a page that nobody uses
				first.Add(s.name, float64(took)/float64(time.Millisecond))
			}
		}
	}
	return []table.Row{table.AtMost("first byte at 100 ms, warm", plainSSH, "ms", first.Median(plainSSH), first.Median(ours), 0.55)}, nil
}

func firstByte(ctx context.Context, address string) (time.Duration, error) {
	begun := time.Now()
	c, err := dialPage(ctx, address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	if err = c.request(smallAsset); err == nil {
		_, err = c.read.ReadByte()
	}
	return time.Since(begun), err
}

// Assets are small where a page is in use: cached scripts that are asked after, and
// answers of an API. The large ones tell what a first visit is like, in which the link's
// own window takes its part.
const smallAsset, largeAsset = 1 << 10, 20 << 10

// measurePage loads a page of many assets over six connections.
func measurePage(ctx context.Context, t *testbed) ([]table.Row, error) {
	all, stop, err := t.sides(ctx, "slow", "http", t.servers.pageAt, false)
	if err != nil {
		return nil, err
	}
	defer stop()
	var rows []table.Row
	// Ten requests after each other take a second at 100 ms, however they are sent: of what ssh takes for the large
	// ones, that is most.
	for _, asset := range []struct {
		size int
		goal float64
	}{{smallAsset, 0.75}, {largeAsset, 0.9}} {
		loaded := table.Samples{}
		for round := range rounds {
			for _, s := range all {
				begun := time.Now()
				if err := loadPage(ctx, s.address, asset.size); err != nil {
					return nil, err
				}
				if round > 0 {
					loaded.Add(s.name, time.Since(begun).Seconds())
				}
			}
		}
		name := fmt.Sprintf("a page of %d × %d KB at 100 ms", assets, asset.size>>10)
		rows = append(rows, table.AtMost(name, plainSSH, "s", loaded.Median(plainSSH), loaded.Median(ours), asset.goal))
	}
	return rows, nil
}

func loadPage(ctx context.Context, address string, size int) error {
	const connections = 6
	errs := make(chan error, connections)
	for range connections {
		go func() {
			c, err := dialPage(ctx, address)
			if err == nil {
				defer func() { _ = c.Close() }()
				for range assets / connections {
					if err = c.get(size); err != nil {
						break
					}
				}
			}
			errs <- err
		}()
	}
	var all []error
	for range connections {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

const (
	visits   = 60                    // of a page, beside a download and without
	apart    = 50 * time.Millisecond // so that a visit does not meet the one before
	download = 1 << 40               // bytes; it is ended before
	goingOn  = 2 * time.Second       // before the first visit, so that the download has its speed
)

// measureBeside measures on the machine as it is, and beside two busy processes.
func measureBeside(ctx context.Context, t *testbed) ([]table.Row, error) {
	noise := ground.WatchNoise()
	b, err := besideDownload(ctx, t)
	busy := noise.Busy(time.Duration(b.idle.P95(ours)*float64(time.Millisecond)), narrowRTT)
	if err != nil {
		return nil, err
	}
	const name, load = "first byte (p95) beside a download, 100 Mbit/s, 20 ms", ", two busy processes"
	rows := append(
		table.NotJudged(busy, table.AtMost(name, "idle", "ms", b.idle.P95(ours), b.busy.P95(ours), 2)),
		b.againstSSH(name, 0.75)...)
	stop, err := ground.Load(ctx, busyProcesses)
	if err != nil {
		return rows, err
	}
	defer stop()
	if b, err = besideDownload(ctx, t); err != nil {
		return rows, err
	}
	return append(rows, b.againstSSH(name+load, 1)...), nil
}

// busyProcesses is how many take processor time beside a measurement.
const busyProcesses = 2

// besideTimes are those to a first byte, idle and beside a download, and its speeds.
type besideTimes struct{ idle, busy, speed table.Samples }

func (b besideTimes) againstSSH(name string, goal float64) []table.Row {
	return []table.Row{
		table.AtMost(name, plainSSH, "ms", b.busy.P95(plainSSH), b.busy.P95(ours), goal),
		table.AtLeast("… that download", plainSSH, "MB/s", b.speed.Median(plainSSH), b.speed.Median(ours), 0.9),
	}
}

// besideDownload visits a page again and again, without and with a download over the same
// connection that takes the whole narrow link.
func besideDownload(ctx context.Context, t *testbed) (b besideTimes, err error) {
	b = besideTimes{table.Samples{}, table.Samples{}, table.Samples{}}
	all, stop, err := t.sides(ctx, "narrow", "http", t.servers.pageAt, false)
	if err != nil {
		return b, err
	}
	defer stop()
	for _, s := range all {
		if err := visit(ctx, s, b.idle); err != nil {
			return b, err
		}
		d, err := startDownload(ctx, s.address)
		if err != nil {
			return b, err
		}
		err = ctxtime.Sleep(ctx, goingOn)
		begun, before := time.Now(), d.got.Load()
		if err == nil {
			err = visit(ctx, s, b.busy)
		}
		b.speed.Add(s.name, float64(d.got.Load()-before)/1e6/time.Since(begun).Seconds())
		if err := errors.Join(err, d.stop()); err != nil {
			return b, err
		}
	}
	return b, nil
}

// visit takes the times to a page's first byte.
func visit(ctx context.Context, s *side, into table.Samples) error {
	for range visits {
		took, err := firstByte(ctx, s.address)
		if err != nil {
			return err
		}
		into.Add(s.name, float64(took)/float64(time.Millisecond))
		if err := ctxtime.Sleep(ctx, apart); err != nil {
			return err
		}
	}
	return nil
}

// running is a download that goes on until it is stopped.
type running struct {
	conn *connection
	got  atomic.Int64
	end  chan struct{}
}

func startDownload(ctx context.Context, address string) (*running, error) {
	c, err := dialPage(ctx, address)
	if err != nil {
		return nil, err
	}
	d := &running{conn: c, end: make(chan struct{})}
	if err := c.request(download); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go func() {
		defer close(d.end)
		buf := make([]byte, chunk)
		for {
			n, err := c.read.Read(buf)
			d.got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return d, nil
}

// stop ends the download.
func (d *running) stop() error {
	err := d.conn.Close()
	<-d.end
	return err
}
