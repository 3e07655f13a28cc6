//go:build linux

package ground

import (
	"context"
	"net"
	"sync"
	"time"
)

// Proxy passes connections on, each byte so much later: a long link. Without a limit it
// is as wide as can be; with one, what is too much waits in a queue, as in a router.
type Proxy struct {
	listener net.Listener
	to       string
	delay    time.Duration
	limit    int64 // bytes a second in each direction; 0: none
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	dark  chan struct{} // closed when the connections so far are lost in silence
}

// NewProxy listens on loopback for connections to an address. A limit is in bytes a
// second, for each connection and direction.
func NewProxy(to string, delay time.Duration, limit int64) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, to: to, delay: delay, limit: limit, conns: map[net.Conn]bool{}, dark: make(chan struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Port is where it listens.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *Proxy) accept() {
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

// Forget loses every connection without a word, as a change of address does.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.dark)
	p.dark = make(chan struct{})
}

type parcel struct {
	due  time.Time
	data []byte
}

func (p *Proxy) pass(to, from net.Conn, dark <-chan struct{}) {
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
	if p.limit > 0 {
		_ = from.(*net.TCPConn).SetReadBuffer(queueSize)
	}
	buf := make([]byte, 256<<10)
	through := time.Now() // when the link is free again
	for {
		n, err := from.Read(buf[:p.atOnce()])
		if n > 0 {
			now := time.Now()
			if p.limit > 0 {
				if now.Sub(through) > oversleep {
					through = now // nothing came for a while
				}
				through = through.Add(time.Duration(n) * time.Second / time.Duration(p.limit))
				time.Sleep(time.Until(through))
				now = through
			}
			parcels <- parcel{now.Add(p.delay), append([]byte(nil), buf[:n]...)}
		}
		if err != nil {
			return
		}
	}
}

const (
	queueSize = 256 << 10 // what waits before a limited link, as in a router of a home
	oversleep = 5 * time.Millisecond
)

// atOnce is how much is read from a connection at once.
func (p *Proxy) atOnce() int {
	if p.limit > 0 {
		return 16 << 10
	}
	return 256 << 10
}

// Close ends it with all its connections.
func (p *Proxy) Close() {
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
