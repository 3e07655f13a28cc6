//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/bench/table"
)

// narrowRTT is the round trip of the link of 100 Mbit/s.
const narrowRTT = 20 * time.Millisecond

// upgrades compares WebSockets of a page, which go through the relay inside the job, with its ordinary
// requests, which go from the login node to the node.
func (f *field) upgrades(ctx context.Context) ([]table.Row, error) {
	if _, err := f.output(ctx, f.tunctl, "up", "narrow", "--no-open"); err != nil {
		return nil, err
	}
	p, err := f.narrowPage(ctx)
	if err != nil {
		return nil, err
	}
	const relay, direct = "by relay", "directly"
	first, echoes, down := table.Samples{}, table.Samples{}, table.Samples{}
	for range rounds {
		for way, upgrade := range map[string]bool{relay: true, direct: false} {
			opened, echoed, err := p.exchange(ctx, upgrade)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way, err)
			}
			first.Add(way, opened.Seconds())
			echoes.Add(way, echoed.Seconds())
		}
	}
	for range 3 {
		for way, upgrade := range map[string]bool{relay: true, direct: false} {
			rate, err := p.load(ctx, upgrade, 32<<20)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way, err)
			}
			down.Add(way, rate)
		}
	}
	memory, err := f.holdMemory(ctx, p)
	if err != nil {
		return nil, err
	}
	const peer, link = "an ordinary request", ", 20 ms, 100 Mbit/s"
	return []table.Row{
		{
			Measure: "first byte of an upgrade" + link, Peer: peer, Theirs: first.Median(direct), Ours: first.Median(relay), Unit: "s",
			Goal: "≤ 20 ms more", Reached: first.Median(relay) <= first.Median(direct)+narrowRTT.Seconds(),
		},
		table.AtMost("a message of a WebSocket and its echo"+link, peer, "s", echoes.Median(direct), echoes.Median(relay), 1.25),
		table.AtLeast("down through a WebSocket"+link, peer, "MB/s", down.Median(direct), down.Median(relay), 0.8),
		{Measure: "memory of a relay with 20 held streams", Ours: memory, Unit: "MB", Goal: "≤ 64", Reached: memory <= 64},
	}, nil
}

// narrowPage is the page of the session there, once its WebSockets go through the job: its node may not be known at first.
func (f *field) narrowPage(ctx context.Context) (page, error) {
	for began := time.Now(); ; time.Sleep(time.Second) {
		out, err := f.output(ctx, f.tunctl, "status", "narrow", "--json")
		if err != nil {
			return page{}, err
		}
		var s api.Session
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			return page{}, err
		}
		if s.Websockets != nil && s.Websockets.Continue && s.Endpoint.Reach == api.ReachLogin {
			return page{s.Local}, nil
		}
		if time.Since(began) > 2*time.Minute {
			return page{}, fmt.Errorf("the page is reached in another way: %+v, %+v", s.Endpoint, s.Websockets)
		}
	}
}

// page is a session's page, by its local address.
type page struct{ address string }

// request sends a request over a new connection.
func (p page) request(ctx context.Context, path string, upgrade bool) (net.Conn, *bufio.Reader, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Now().Add(4 * time.Minute))
	in := bufio.NewReader(c)
	if err := p.ask(c, in, path, upgrade); err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return c, in, nil
}

// ask sends a request and reads the header of its answer.
func (p page) ask(c net.Conn, in *bufio.Reader, path string, upgrade bool) error {
	text, want := "GET /"+path+" HTTP/1.1\r\nHost: "+p.address+"\r\n", http.StatusOK
	if upgrade {
		text, want = text+"Connection: Upgrade\r\nUpgrade: bench\r\n", http.StatusSwitchingProtocols
	}
	if _, err := io.WriteString(c, text+"\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(in, nil) //nolint:bodyclose // the connection is closed
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("the page answers %s", response.Status)
	}
	return nil
}

// exchange is how long a new connection takes to its first byte, and then a message with its answer.
func (p page) exchange(ctx context.Context, upgrade bool) (opened, echoed time.Duration, err error) {
	began := time.Now()
	c, in, err := p.request(ctx, "", upgrade)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	opened = time.Since(began)
	message := []byte("e" + strings.Repeat("x", 100)) // the first letter asks for the echo
	for range 2 {                                     // the first one may wait for more than the link
		began = time.Now()
		if !upgrade {
			err = p.ask(c, in, "", false)
		} else if _, err = c.Write(message); err == nil {
			message = message[len(message)-100:]
			_, err = io.ReadFull(in, message)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return opened, time.Since(began), nil
}

// load is how fast bytes come, in MB/s.
func (p page) load(ctx context.Context, upgrade bool, size int64) (float64, error) {
	path := strconv.FormatInt(size, 10)
	began := time.Now()
	c, in, err := p.request(ctx, path, upgrade)
	if err != nil {
		return 0, err
	}
	if upgrade {
		return transferOver(ctx, c, 'd', size)
	}
	defer func() { _ = c.Close() }()
	_, err = io.CopyN(io.Discard, in, size)
	return float64(size) / 1e6 / time.Since(began).Seconds(), err
}

// holdMemory is how much memory a relay has, in MB, while it holds 20 streams that want to send 4 MB each.
// All of that comes once there is a connection again.
func (f *field) holdMemory(ctx context.Context, p page) (float64, error) {
	const count, size = 20, 4 << 20
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range count {
		c, _, err := p.request(ctx, "", true)
		if err != nil {
			return 0, err
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		if _, err := c.Write(binary.BigEndian.AppendUint64([]byte("l"), size)); err != nil {
			return 0, err
		}
	}
	select {
	case <-time.After(time.Second): // they have arrived, and are answered later
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	f.narrow.Forget()
	most := 0.0
	for range 8 {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		kb, err := f.lab.Exec(node, "sh", "-c", "ps -eo rss=,args= | awk '/[t]unctl-relay/ && $1 > most { most = $1 } END { print most }'")
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(kb), 64)
		if err != nil {
			return 0, err
		}
		most = max(most, n*1024/1e6)
	}
	for _, c := range conns {
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return 0, fmt.Errorf("a held stream: %w", err)
		}
	}
	return most, nil
}
