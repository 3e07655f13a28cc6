package lab

import (
	"net"
	"sync"
	"time"
)

// links are the cluster's live connections and the faults that rule all of them.
type links struct {
	mu    sync.Mutex
	live  map[*link]struct{}
	open  chan struct{} // closed while traffic may pass
	delay time.Duration
}

func (l *links) init() {
	l.live = map[*link]struct{}{}
	l.open = make(chan struct{})
	close(l.open)
}

// pause stops all traffic, as a stopped sshd does: connections stay, and new ones
// are still taken by the kernel.
func (l *links) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default:
	}
}

func (l *links) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

func (l *links) slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *links) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.live {
		k.drop()
	}
}

func (l *links) rules() (open chan struct{}, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.delay
}

// wrap puts a connection under the faults' rule until it is closed.
func (l *links) wrap(conn net.Conn) *link {
	k := &link{
		Conn:     conn,
		links:    l,
		in:       make(chan chunk, 16),
		out:      make(chan chunk, 16),
		closing:  make(chan struct{}),
		dropping: make(chan struct{}),
	}
	l.mu.Lock()
	l.live[k] = struct{}{}
	l.mu.Unlock()
	k.wg.Go(k.pumpIn)
	k.wg.Go(k.pumpOut)
	return k
}

// link is a connection that can be frozen, slowed and dropped.
type link struct {
	net.Conn
	links *links

	in, out  chan chunk
	rest     []byte // of the chunk being read; Read has one caller at a time
	wg       sync.WaitGroup
	closing  chan struct{} // closed: send what is queued, then end
	dropping chan struct{} // closed: end now
	closed   sync.Once
	dropped  sync.Once
}

type chunk struct {
	data []byte
	at   time.Time
	err  error
}

func (k *link) pumpIn() {
	for {
		if !k.pass(time.Time{}) {
			return
		}
		buf := make([]byte, 32<<10)
		n, err := k.Conn.Read(buf)
		select {
		case k.in <- chunk{buf[:n], time.Now(), err}:
		case <-k.dropping:
			return
		}
		if err != nil {
			return
		}
	}
}

func (k *link) pumpOut() {
	defer k.drop()
	for {
		select {
		case c := <-k.out:
			if !k.send(c) {
				return
			}
		case <-k.dropping:
			return
		case <-k.closing:
			k.flush()
			return
		}
	}
}

// flush sends what was written before Close: a server says why it hangs up.
func (k *link) flush() {
	_ = k.SetWriteDeadline(time.Now().Add(time.Second))
	for {
		select {
		case c := <-k.out:
			if !k.send(c) {
				return
			}
		default:
			return
		}
	}
}

func (k *link) send(c chunk) bool {
	if !k.pass(c.at) {
		return false
	}
	_, err := k.Conn.Write(c.data)
	return err == nil
}

// pass waits until traffic of that moment may continue, and reports false when the
// link was dropped meanwhile.
func (k *link) pass(at time.Time) bool {
	open, delay := k.links.rules()
	if wait := time.Until(at.Add(delay)); !at.IsZero() && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-k.dropping:
			return false
		}
	}
	select {
	case <-open:
		return true
	case <-k.dropping:
		return false
	}
}

// Read implements net.Conn.
func (k *link) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		select {
		case c := <-k.in:
			if !k.pass(c.at) {
				return 0, net.ErrClosed
			}
			if len(c.data) == 0 && c.err != nil {
				return 0, c.err
			}
			k.rest = c.data
		case <-k.dropping:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// Write implements net.Conn.
func (k *link) Write(p []byte) (int, error) {
	select {
	case <-k.closing:
		return 0, net.ErrClosed
	case <-k.dropping:
		return 0, net.ErrClosed
	case k.out <- chunk{data: append([]byte(nil), p...), at: time.Now()}:
		return len(p), nil
	}
}

// Close implements net.Conn: what was written still goes out.
func (k *link) Close() error {
	k.closed.Do(func() { close(k.closing) })
	return nil
}

func (k *link) drop() {
	k.dropped.Do(func() {
		close(k.dropping)
		_ = k.Conn.Close()
	})
}

// done waits for the link's end and removes it.
func (k *link) done() {
	_ = k.Close()
	k.wg.Wait()
	k.links.mu.Lock()
	delete(k.links.live, k)
	k.links.mu.Unlock()
}
