package tunnel

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// conn is one live SSH connection.
type conn struct {
	client   *ssh.Client
	wire     *wire
	log      *slog.Logger
	limits   Limits
	interval time.Duration // of the keepalive
	misses   int
	mute     bool // no requests on the connection as a whole: its mux link would die
	lent     bool // it is the person's own, and tells nothing of how a login goes
	slots    *slots
	since    time.Time
	done     chan struct{} // closed when the transport has ended

	owner     *Host // who logged in; others may share it
	settings  sshconfig.Settings
	identity  string // what the settings led to when it was dialled; see Pool.identity
	transport string
	because   string // why it is not the usual one

	auth   string
	silent bool
	via    []string
	ends   time.Time // of the certificate that logged in; zero: none

	agreed *api.Algorithms // nil where another program holds the connection

	mu        sync.Mutex
	loginNode string
	rtt       time.Duration
	why       error // why it ended
	closing   bool
	wg        sync.WaitGroup
}

// newConn takes over an SSH connection that has just logged in.
func newConn(t *attempt, client *ssh.Client) *conn {
	c := &conn{
		client: client, wire: t.wire, log: t.log, limits: t.pool.o.Limits,
		interval: t.pool.o.Limits.KeepaliveEvery, misses: t.pool.o.Limits.KeepaliveMax,
		slots: newSlots(t.pool.o.Limits.MaxSessions, t.pool.o.Limits.SessionsAgain),
		since: time.Now(), done: make(chan struct{}), transport: api.TransportNative,
		settings: t.settings, identity: t.identity,
	}
	if own := t.settings.ServerAliveInterval; own > 0 {
		c.interval, c.misses = own, max(t.settings.ServerAliveCountMax, 1)
	}
	c.wg.Go(func() {
		err := client.Wait()
		c.mu.Lock()
		if c.why == nil {
			c.why = err
		}
		c.mu.Unlock()
		close(c.done)
	})
	if !c.wire.whenEnded(c.seal) {
		c.seal()
	}
	return c
}

// sealPatience is how long the end of a link may be kept from the library. Only a
// key exchange under way, with its queue full, makes it take any time.
const sealPatience = time.Second

// seal has the library notice that nothing can be sent before it hears that nothing
// comes. It takes the first packet that it cannot send for sent; were that one the
// opening of a channel, and all channels ended already, it would wait for the answer
// without end, and whoever closes the connection with it.
func (c *conn) seal() {
	_ = c.wire.Close()
	noticed := make(chan struct{})
	go func() { // it ends at the latest when the library knows
		defer close(noticed)
		_, _, _ = c.client.SendRequest("keepalive@openssh.com", false, nil)
	}()
	select {
	case <-noticed:
	case <-time.After(sealPatience):
	}
}

// spawn runs f beside the connection, whose close waits for it. It reports whether
// the connection was still open.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Go(f)
	return true
}

// close ends the connection for a reason and waits for what runs beside it. The
// raw stream goes first: nothing polite can block then.
func (c *conn) close(why error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = why
	}
	c.closing = true
	c.mu.Unlock()
	_ = c.wire.Close()
	_ = c.client.Close()
	c.settle()
}

// closePatience is how long a close waits for what runs beside the connection. All
// of that ends with the link at once; were it not so, the host must come back all
// the same.
const closePatience = 10 * time.Second

// settle waits for what runs beside the connection.
func (c *conn) settle() {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		c.wg.Wait()
	}()
	select {
	case <-settled:
	case <-time.After(closePatience):
		c.log.Error("a goroutine outlives its connection")
	}
}

// ended reports whether the connection is at its end, maybe before all of it knows.
func (c *conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return c.wire.isBroken()
	}
}

// gone is the error of a caller whose connection ended.
func (c *conn) gone() error { return fmt.Errorf("%w: %w", api.ErrDown, c.reason()) }

// reason is why the connection ended.
func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil || errors.Is(c.why, io.EOF) {
		return errors.New("the host closed the connection")
	}
	if said, ok := disconnectText(c.why); ok {
		return &hungUpError{said, c.why}
	}
	return plain(api.RemoteError(c.why))
}

// hungUpError is the end of a connection by a host that said why.
type hungUpError struct {
	said api.RemoteText
	err  error
}

func (e *hungUpError) Error() string { return "the host closed the connection: " + e.said.String() }
func (e *hungUpError) Unwrap() error { return e.err }

// remember keeps how the login went, for the next one.
func (c *conn) remember(m Memory, host string) {
	if c.lent {
		return
	}
	m.SetSilent(host, c.silent)
	if account := c.settings.Account(); !slices.Contains(m.Accounts(host), account) {
		m.AddAccount(host, account)
	}
	if a, ok := c.wire.RemoteAddr().(*net.TCPAddr); ok && len(c.via) == 0 {
		m.SetLastAddress(host, a.String())
	}
}

// measured is the round trip and the login node, as far as they are known.
func (c *conn) measured() (rtt time.Duration, loginNode string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rtt, c.loginNode
}

func (c *conn) measure(rtt time.Duration, loginNode string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rtt > 0 {
		c.rtt = rtt.Round(100 * time.Microsecond)
	}
	if loginNode != "" {
		c.loginNode = loginNode
	}
}
