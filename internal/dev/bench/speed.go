//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"tunctl/internal/dev/bench/table"
)

const (
	streamSize = 256 << 20
	rounds     = 5
)

// order is what a client says to the bulk server.
func order(letter byte, size int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{letter}, uint64(size))
}

func orderSize(order []byte) int64 { return int64(binary.BigEndian.Uint64(order[1:])) }

// transfer moves size bytes one way and returns how fast that went, in MB/s.
func transfer(ctx context.Context, address string, letter byte, size int64) (float64, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	begun := time.Now()
	if _, err := c.Write(order(letter, size)); err != nil {
		return 0, err
	}
	if letter == 'd' {
		err = drain(c, size)
	} else {
		err = fill(c, size)
	}
	return float64(size) / 1e6 / time.Since(begun).Seconds(), err
}

// fill sends size bytes and waits for the word that they were taken.
func fill(c net.Conn, size int64) error {
	buf := make([]byte, chunk)
	for left := size; left > 0; left -= int64(len(buf)) {
		if _, err := c.Write(buf[:min(int64(len(buf)), left)]); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(c, buf[:1])
	return err
}

// sides starts both peers and ours on a target.
func (t *testbed) sides(ctx context.Context, host, kind, target string, withAES bool) (all []*side, stop func(), err error) {
	stop = func() {
		for _, s := range all {
			s.stop()
		}
	}
	add := func(s *side, err error) error {
		if s != nil {
			all = append(all, s)
		}
		return err
	}
	err = add(t.startSSH(ctx, plainSSH, host, target))
	if err == nil {
		err = add(t.startOurs(ctx, kind, target, host))
	}
	if err == nil && withAES {
		err = add(t.startSSH(ctx, aesSSH, host, target, "-c", "aes128-gcm@openssh.com"))
	}
	if err != nil {
		stop()
	}
	return all, stop, err
}

// measureThroughput moves one stream down and up, and looks at what that costs.
func measureThroughput(ctx context.Context, t *testbed) ([]table.Row, error) {
	all, stop, err := t.sides(ctx, "fast", "tcp", t.servers.bulk.Addr().String(), true)
	if err != nil {
		return nil, err
	}
	defer stop()
	down, up, cost := table.Samples{}, table.Samples{}, table.Samples{}
	for round := range rounds + 1 {
		for _, s := range all {
			before, err := s.cpu()
			if err != nil {
				return nil, err
			}
			d, err1 := transfer(ctx, s.address, 'd', streamSize)
			u, err2 := transfer(ctx, s.address, 'u', streamSize)
			after, err3 := s.cpu()
			if err := errors.Join(err1, err2, err3); err != nil {
				return nil, err
			}
			if round == 0 {
				continue // warms up
			}
			down.Add(s.name, d)
			up.Add(s.name, u)
			cost.Add(s.name, (after-before).Seconds()/(2*streamSize/1e9))
		}
	}
	return []table.Row{
		table.AtLeast("one stream down", plainSSH, "MB/s", down.Median(plainSSH), down.Median(ours), 1.4),
		table.AtLeast("one stream up", plainSSH, "MB/s", up.Median(plainSSH), up.Median(ours), 1.8),
		table.AtLeast("one stream down", aesSSH, "MB/s", down.Median(aesSSH), down.Median(ours), 0.75), // x/crypto deciphers and copies each packet on one processor
		table.AtLeast("one stream up", aesSSH, "MB/s", up.Median(aesSSH), up.Median(ours), 1.0),
		table.AtMost("processor per GB", plainSSH, "s", cost.Median(plainSSH), cost.Median(ours), 0.75),
	}, nil
}

// measureSix moves six streams at once.
func measureSix(ctx context.Context, t *testbed) ([]table.Row, error) {
	const streams = 6
	all, stop, err := t.sides(ctx, "fast", "tcp", t.servers.bulk.Addr().String(), false)
	if err != nil {
		return nil, err
	}
	defer stop()
	down := table.Samples{}
	for round := range rounds {
		for _, s := range all {
			errs := make(chan error, streams)
			begun := time.Now()
			for range streams {
				go func() {
					_, err := transfer(ctx, s.address, 'd', streamSize/4)
					errs <- err
				}()
			}
			for range streams {
				if err := <-errs; err != nil {
					return nil, err
				}
			}
			if round > 0 {
				down.Add(s.name, streams*streamSize/4/1e6/time.Since(begun).Seconds())
			}
		}
	}
	return []table.Row{table.AtLeast("six streams down", plainSSH, "MB/s", down.Median(plainSSH), down.Median(ours), 1.5)}, nil
}
