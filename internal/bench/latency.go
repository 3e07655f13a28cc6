//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
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
	return &connection{c, bufio.NewReader(c)}, nil
}

// get fetches one asset.
func (c *connection) get() error {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
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
func measureFirstByte(ctx context.Context, g *ground) ([]row, error) {
	all, stop, err := g.sides(ctx, "slow", "http", g.far.pageAt, false)
	if err != nil {
		return nil, err
	}
	defer stop()
	first := samples{}
	for round := range rounds + 3 {
		for _, s := range all {
			took, err := firstByte(ctx, s.address)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one comes to a page that nobody uses
				first.add(s.name, float64(took)/float64(time.Millisecond))
			}
		}
	}
	return []row{atMost("first byte at 100 ms, warm", plainSSH, "ms", first.median(plainSSH), first.median(ours), 0.55)}, nil
}

func firstByte(ctx context.Context, address string) (time.Duration, error) {
	begun := time.Now()
	c, err := dialPage(ctx, address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err == nil {
		_, err = c.read.ReadByte()
	}
	return time.Since(begun), err
}

// measurePage loads a page of many assets over six connections.
func measurePage(ctx context.Context, g *ground) ([]row, error) {
	all, stop, err := g.sides(ctx, "slow", "http", g.far.pageAt, false)
	if err != nil {
		return nil, err
	}
	defer stop()
	loaded := samples{}
	for round := range rounds {
		for _, s := range all {
			begun := time.Now()
			if err := loadPage(ctx, s.address); err != nil {
				return nil, err
			}
			if round > 0 {
				loaded.add(s.name, time.Since(begun).Seconds())
			}
		}
	}
	return []row{atMost("a page of 60 assets at 100 ms", plainSSH, "s", loaded.median(plainSSH), loaded.median(ours), 0.75)}, nil
}

func loadPage(ctx context.Context, address string) error {
	const connections = 6
	errs := make(chan error, connections)
	for range connections {
		go func() {
			c, err := dialPage(ctx, address)
			if err == nil {
				defer func() { _ = c.Close() }()
				for range assets / connections {
					if err = c.get(); err != nil {
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
