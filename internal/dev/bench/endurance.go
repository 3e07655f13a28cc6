//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

// measureMany holds two thousand connections through one forward.
func measureMany(ctx context.Context, t *testbed) ([]table.Row, error) {
	const many = 2000
	s, err := t.startOurs(ctx, "tcp", t.servers.echo.Addr().String(), "fast")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	before, err := s.rss()
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	held := make(chan net.Conn, many)
	lanes := make(chan struct{}, 50) // as many as come at the same instant
	for range many {
		wg.Go(func() {
			lanes <- struct{}{}
			defer func() { <-lanes }()
			if c, err := echoOnce(ctx, s.address); err == nil {
				held <- c
			}
		})
	}
	wg.Wait()
	after, err := s.rss()
	close(held)
	lost := many - len(held)
	for c := range held { // they still work, all of them
		if echo(c) != nil {
			lost++
		}
		_ = c.Close()
	}
	each := (after - before) / many / 1024
	return []table.Row{
		{Measure: "2,000 connections at once", Ours: float64(lost), Unit: "lost", Goal: "0", Reached: lost == 0},
		{Measure: "… memory for each", Ours: each, Unit: "KB", Goal: "< 100", Reached: each < 100},
	}, err
}

func echoOnce(ctx context.Context, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := echo(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func echo(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	word := bytes.Repeat([]byte("tunctl "), 128)
	if _, err := c.Write(word); err != nil {
		return err
	}
	got := make([]byte, len(word))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !bytes.Equal(got, word) {
		return errors.New("other bytes came back")
	}
	return nil
}

// measureIdle holds many hosts connected for a minute and does nothing.
func measureIdle(ctx context.Context, t *testbed) ([]table.Row, error) {
	names := make([]string, hosts)
	var peers []*side
	defer func() {
		for _, p := range peers {
			p.stop()
		}
	}()
	for i := range hosts {
		names[i] = idleHost(i)
		p := &side{name: plainSSH, cmd: exec.CommandContext(ctx, "ssh", "-F", t.config, "-N", names[i])}
		if err := p.cmd.Start(); err != nil {
			return nil, err
		}
		peers = append(peers, p)
	}
	s, err := t.startOurs(ctx, "tcp", t.servers.echo.Addr().String(), names...)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	const settle, span = 10 * time.Second, time.Minute
	if err := ctxtime.Sleep(ctx, settle); err != nil {
		return nil, err
	}
	before, err1 := s.cpu()
	waited := ctxtime.Sleep(ctx, span)
	after, err2 := s.cpu()
	mine, err3 := s.rss()
	if err := errors.Join(waited, err1, err2, err3); err != nil {
		return nil, err
	}
	theirs := 0.0
	for _, p := range peers {
		rss, err := p.rss()
		if err != nil {
			return nil, err
		}
		theirs += rss
	}
	share := 100 * (after - before).Seconds() / span.Seconds()
	return []table.Row{
		table.AtMost("memory, 20 hosts idle", fmt.Sprintf("%d × ssh -N", hosts), "MB", theirs/1e6, mine/1e6, 0.3),
		{Measure: "processor, 20 hosts idle", Ours: share, Unit: "%", Goal: "< 0.2 %", Reached: share < 0.2},
	}, nil
}

// measureReturn loses the connection without a word, as a change of networks does
// while the new network is there, and waits for the first byte through the same port.
// The peer is autossh with the settings that sites advise; tunctl's side is told of the
// change, as the system tells it.
func measureReturn(ctx context.Context, t *testbed) ([]table.Row, error) {
	s, err := t.startOurs(ctx, "tcp", t.servers.echo.Addr().String(), "fickle")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	port, err := ground.FreePort()
	if err != nil {
		return nil, err
	}
	peer := &side{name: "autossh", address: fmt.Sprintf("127.0.0.1:%d", port)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	peer.cmd = ground.Group(exec.CommandContext(ctx, "autossh", "-M", "0", "-F", t.config, "-N", "-o", "ExitOnForwardFailure=yes",
		"-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=3", "-L", fmt.Sprintf("%d:%s", port, t.servers.echo.Addr()), "fickle"))
	if err := peer.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { cancel(); _ = peer.cmd.Wait() }()
	for _, x := range []*side{s, peer} {
		if _, err := returned(ctx, x.address, time.Now()); err != nil {
			return nil, err
		}
	}
	t.fickle.Forget()
	lost := time.Now()
	if err := s.send("moved"); err != nil {
		return nil, err
	}
	mine, err := returned(ctx, s.address, lost)
	if err != nil {
		return nil, err
	}
	theirs, err := returned(ctx, peer.address, lost)
	return []table.Row{table.AtMost("back after a change of networks", "autossh, 30 s × 3", "s", theirs.Seconds(), mine.Seconds(), 0.1)}, err
}

// returned is how long after a moment the port carries a byte again.
func returned(ctx context.Context, address string, since time.Time) (time.Duration, error) {
	for ctx.Err() == nil {
		if answers(ctx, address) {
			return time.Since(since), nil
		}
		if err := ctxtime.Sleep(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, ctx.Err()
}

// answers tries once, without patience for a connection that is dead.
func answers(ctx context.Context, address string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, err = c.Write([]byte("x"))
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	return err == nil
}
