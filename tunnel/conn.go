package tunnel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/tunnel/channels"
	"tunctl/tunnel/openssh"
	"tunctl/tunnel/pace"
	"tunctl/tunnel/sshconfig"
)

// conn is one live SSH connection.
type conn struct {
	client  *ssh.Client
	wire    *wire
	log     *slog.Logger
	limits  Limits
	master  *openssh.Master // the ssh program that holds it, whose control socket a global request would break; nil: none
	slots   *channels.Limit
	clients clientWaits
	since   time.Time
	done    chan struct{}         // closed when the transport has ended
	network chan struct{}         // receives when the network changed
	parent  *conn                 // the one that it goes through; nil: none
	address func(netip.Addr) bool // whether this computer has an address; nil: it has all
	away    bool                  // the address was gone at the last network change; guarded by the lock of its owner

	owner        *Host // who logged in; others may share it
	settings     sshconfig.Settings
	identity     string // see Pool.identity; as of the dial
	transport    string
	transportWhy string // why it is not native

	auth            string
	silent          bool
	via             []string
	certificateEnds time.Time // zero: no certificate logged in

	hostKey    ssh.PublicKey   // that the server showed; nil: another program holds the connection
	algorithms *api.Algorithms // nil: another program holds the connection
	meter      *pace.Meter     // nil: another program holds the connection
	requests   chan struct{}   // full while a request waits for its reply

	mu        sync.Mutex
	loginNode string
	rtt       time.Duration
	stalled   time.Time // since when it does not respond; zero: it does
	kept      bool      // although it does not respond: a new login would need the user
	why       error     // why it ended
	closing   bool
	standing  standing
	set       chan struct{} // closed when it is set aside
	wg        sync.WaitGroup
}

// newConn takes over an SSH connection after its login.
func newConn(t *attempt, client *ssh.Client) *conn {
	limits := t.pool.o.Limits.within(&t.settings)
	c := &conn{
		client: client, wire: t.wire, log: t.log, limits: limits,
		slots:    channels.New(limits.MaxSessions, limits.SessionsAgain),
		clients:  clientWaits{began: make(chan struct{}, 1)},
		requests: make(chan struct{}, 1), network: make(chan struct{}, 1), set: make(chan struct{}),
		since: time.Now(), done: make(chan struct{}), transport: api.TransportNative,
		settings: t.settings, identity: t.identity,
	}
	if through, ok := t.wire.Conn.(*channelConn); ok {
		c.parent = through.link
	}
	c.address, c.clients.unused = t.pool.network.HasAddress, c.endIfUnused
	c.wg.Go(func() {
		c.noteEnd(client.Wait())
		close(c.done)
	})
	if !c.wire.setOnEnd(c.failPendingWrites) {
		c.failPendingWrites()
	}
	return c
}

// failWritesTimeout bounds failPendingWrites. It takes time only during a key exchange
// whose queue is full.
const failWritesTimeout = time.Second

// failPendingWrites makes the library see that writing fails before it sees that reading
// ended. It believes that the first packet which it cannot send was sent. If that packet
// opened a channel after all channels had ended, the library would wait for the reply
// forever, and so would close.
func (c *conn) failPendingWrites() {
	_ = c.wire.Close()
	// It ends at the latest when the library sees the end.
	_ = endsWithin(failWritesTimeout, func() { _, _, _ = c.client.SendRequest(keepaliveRequest, false, nil) })
}

// endsWithin reports whether f ends within a time. It is left to its end in any case.
func endsWithin(limit time.Duration, f func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// spawn runs f in a goroutine that close waits for. It reports false if the connection
// is already closing.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Go(f)
	return true
}

// close ends the connection for a reason and waits for its goroutines. It closes the raw
// stream first, so that no orderly shutdown can block.
func (c *conn) close(why error) {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.end(why)
	_ = c.client.Close()
	if !endsWithin(closeTimeout, c.wg.Wait) {
		c.log.Error("a goroutine outlives its connection")
	}
}

// end has the connection end for a reason, and does not wait for that.
func (c *conn) end(why error) {
	c.noteEnd(why)
	_ = c.wire.Close()
}

// noteEnd records why the connection ends; the first reason counts.
func (c *conn) noteEnd(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = cmp.Or(c.why, why)
}

// hasAddress reports whether this computer still has the address that the connection
// comes from. Without it nothing arrives, and TCP continues when it is back.
func (c *conn) hasAddress() bool { return c.wire.hasAddress(c.address) }

// closeTimeout bounds the wait for a connection's goroutines. All end with the stream;
// if one does not, the host must still reconnect.
const closeTimeout = 10 * time.Second

// ended reports whether the connection has ended, maybe before done is closed.
func (c *conn) ended() bool {
	hungUp, lost := c.wire.ending() // a lost link may show in reading or in writing first
	return hungUp || lost != nil || latest.IsClosed(c.done)
}

// lost is api.ErrDown with the reason once the connection has ended.
func (c *conn) lost() error {
	if c.ended() {
		return c.downError()
	}
	return nil
}

// downError is api.ErrDown with the reason.
func (c *conn) downError() error { return fmt.Errorf("%w: %w", api.ErrDown, c.endReason()) }

// orDown is err, or api.ErrDown with the reason if the connection has ended; nil stays nil.
func (c *conn) orDown(err error) error {
	if err != nil && c.ended() {
		return c.downError()
	}
	return err
}

// endReason is why the connection ended.
func (c *conn) endReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil || errors.Is(c.why, io.EOF) {
		return errors.New("the host closed the connection")
	}
	if said, ok := disconnectText(c.why); ok {
		return fmt.Errorf("the host closed the connection: %s", said)
	}
	return plain(api.RemoteError(c.why))
}

// remember records how the login went, for the next one.
func (c *conn) remember(m Memory, host string) {
	m.Remember(host, func(k *api.Known) {
		k.Silent = c.silent
		if !slices.Contains(k.Accounts, c.identity) {
			k.Accounts = append(slices.Clone(k.Accounts[max(0, len(k.Accounts)+1-maxAccounts):]), c.identity)
		}
		if a, ok := c.wire.RemoteAddr().(*net.TCPAddr); ok && len(c.via) == 0 {
			k.Address = a.String()
		}
	})
}

// maxAccounts is how many accounts of a host are remembered.
const maxAccounts = 8

// roundTrip sends a request and waits for the reply. The library sends one at a time;
// the wait for another one does not count. Where an ssh program holds the connection, whose
// control socket a request would break, it opens a session; a refusal is a reply, too.
func (c *conn) roundTrip() (time.Duration, error) {
	select {
	case c.requests <- struct{}{}:
		defer func() { <-c.requests }()
	case <-c.done:
		return 0, c.downError()
	}
	start := time.Now()
	if c.master == nil {
		_, _, err := c.client.SendRequest(keepaliveRequest, true, nil)
		return time.Since(start), err
	}
	if session, err := c.client.NewSession(); err == nil {
		_ = session.Start(":")
		_ = session.Close()
	}
	return time.Since(start), c.lost()
}

// pingForClient is roundTrip during a client's transfer, which waits for the reply too.
func (c *conn) pingForClient() (time.Duration, error) {
	wait := &channelWait{all: &c.clients}
	wait.sent()
	defer wait.answered()
	return c.roundTrip()
}

// measured is the round trip and the login node; zero while unknown.
func (c *conn) measured() (rtt time.Duration, loginNode string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rtt, c.loginNode
}

// setMeasured records a round trip, unless that waited for a link which did not respond, and
// the login node.
func (c *conn) setMeasured(rtt time.Duration, loginNode string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rtt > 0 && rtt < c.limits.Unacknowledged {
		c.rtt = rtt.Round(100 * time.Microsecond)
	}
	if loginNode != "" {
		c.loginNode = loginNode
	}
}

// notResponding is since when the connection does not respond, zero if it does, and
// whether it is kept although a new one could be made.
func (c *conn) notResponding() (since time.Time, kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stalled, c.kept
}

// setStalled records since when the connection does not respond, and reports whether
// that is news.
func (c *conn) setStalled(since time.Time, kept bool) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since.IsZero() == c.stalled.IsZero() {
		return false
	}
	c.stalled, c.kept = since, kept
	return true
}

// standing is what a connection is used for. One that does not respond may still live:
// TCP survives an outage if the addresses stay. It is set aside and not closed, so that
// what is under way in it continues when it responds again. Meanwhile a login beside it
// follows the rules for all logins. Whichever comes first becomes the host's connection.
type standing int32

const (
	standingUsed     standing = iota // new channels are opened on it
	standingAside                    // it does not respond: no new channels
	standingReplaced                 // another took its place: it ends with its last channel
)

// errAside is why no channel is opened on a connection that does not respond.
var errAside = fmt.Errorf("%w: it does not respond", api.ErrDown)

// worst is the worst standing of a connection and those that it goes through.
func (c *conn) worst() standing {
	if c.parent == nil {
		return c.ownStanding()
	}
	return max(c.ownStanding(), c.parent.worst())
}

func (c *conn) ownStanding() standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standing
}

func (c *conn) setStanding(to standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.standing == standingUsed && to != standingUsed:
		close(c.set)
	case c.standing != standingUsed && to == standingUsed:
		c.set = make(chan struct{})
	}
	c.standing = to
}

// whenAside is closed once no new channels are opened on the connection. What only waits
// for its host to respond then fails, as after a loss.
func (c *conn) whenAside() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set
}

// replace is called when another connection took its place.
func (c *conn) replace() {
	c.setStanding(standingReplaced)
	c.endIfUnused()
}

func (c *conn) endIfUnused() {
	if c.ownStanding() == standingReplaced && c.clients.open.Load() == 0 {
		c.end(errors.New("another connection replaced this one"))
	}
}
