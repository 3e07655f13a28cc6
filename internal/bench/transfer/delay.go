//go:build linux

package main

import (
	"context"
	"net"
	"sync"
	"time"
)

// delayProxy passes connections on, each byte so much later, with no limit on how much
// is under way: a long wide link.
type delayProxy struct {
	listener net.Listener
	to       string
	delay    time.Duration
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newDelayProxy(to string, delay time.Duration) (*delayProxy, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &delayProxy{listener: l, to: to, delay: delay, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *delayProxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *delayProxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns[near], p.conns[far] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(far, near) })
		p.wg.Go(func() { p.pass(near, far) })
	}
}

type parcel struct {
	due  time.Time
	data []byte
}

func (p *delayProxy) pass(to, from net.Conn) {
	parcels := make(chan parcel, 1<<14)
	p.wg.Go(func() {
		defer func() { _ = to.Close() }()
		for x := range parcels {
			time.Sleep(time.Until(x.due))
			if _, err := to.Write(x.data); err != nil {
				_ = from.Close()
			}
		}
	})
	defer close(parcels)
	buf := make([]byte, 256<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			parcels <- parcel{time.Now().Add(p.delay), append([]byte(nil), buf[:n]...)}
		}
		if err != nil {
			return
		}
	}
}

func (p *delayProxy) close() {
	if p == nil {
		return
	}
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
