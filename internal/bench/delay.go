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
	dark  chan struct{} // closed when the connections so far are lost in silence
}

func newDelayProxy(to string, delay time.Duration) (*delayProxy, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &delayProxy{listener: l, to: to, delay: delay, conns: map[net.Conn]bool{}, dark: make(chan struct{})}
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
		dark := p.dark
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(far, near, dark) })
		p.wg.Go(func() { p.pass(near, far, dark) })
	}
}

// forget loses every connection without a word, as a change of address does.
func (p *delayProxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.dark)
	p.dark = make(chan struct{})
}

type parcel struct {
	due  time.Time
	data []byte
}

func (p *delayProxy) pass(to, from net.Conn, dark <-chan struct{}) {
	parcels := make(chan parcel, 1<<14)
	p.wg.Go(func() {
		defer func() { _ = to.Close() }()
		for x := range parcels {
			time.Sleep(time.Until(x.due))
			select {
			case <-dark:
				for range parcels { // swallowed until the bench is over
				}
				return
			default:
			}
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
