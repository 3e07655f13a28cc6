// Package step runs programs and opens connections inside a job, all through one process
// there. That process is a relay, a program in Python which is sent to it on its standard
// input; nothing is installed.
//
// The package is given a running process and knows neither schedulers nor hosts.
package step

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

//go:embed relay.py
var relay string

// Command is the command that starts the relay, for a POSIX shell: `srun … sh -c
// '<Command>'`, or a login on the node. It contains no single quote. The program itself
// is sent by [Start]. Without python3 it prints a line on standard error and exits with
// 127. The last word is what process lists show.
func Command() string {
	// RHEL has a python3 of its own where none was installed. -I and -S leave out what the
	// person's environment or home folder add to Python.
	return `for p in python3 /usr/bin/python3 /usr/libexec/platform-python; do ` +
		`command -v $p >/dev/null 2>&1 && exec $p -I -S -c "import sys; i = sys.stdin.buffer; exec(i.read(int(i.readline())))" tunctl-relay; done; ` +
		`echo "python3 is not installed on this node" >&2; exit 127`
}

// Options tell the relay about the job.
type Options struct {
	Job  string // the job's id; "": there is none, the environment is the process's own
	Port int    // of the job's server, whose environment programs get; 0: unknown
}

// Info is what the relay found out when it started.
type Info struct {
	Node    string `json:"node"`    // the name of the machine
	Inside  bool   `json:"inside"`  // the relay is part of the job
	Environ string `json:"environ"` // where the environment of programs is from: "server", "job", or "step"
}

const (
	pingEvery = 15 * time.Second
	// silence is how long the relay lives if it hears nothing: Slurm does not tell a step
	// that its srun was killed. A laptop may sleep for some minutes and keep its connection,
	// and then its shells stay, too.
	silence = 10 * time.Minute
	// maxUnanswered is how many pings in a row may have no answer. That is two minutes, as
	// long as the keepalive of an SSH connection waits: a stall that the connection survives
	// must not end the shells.
	maxUnanswered = 8
	// outLimit is how many bytes may wait to be sent before writers wait.
	outLimit = 128 << 10
	// endTimeout bounds how long Close waits for the relay.
	endTimeout = 3 * time.Second
)

// Conn is a running relay. Its channels are independent: a slow one does not hold up the
// others.
type Conn struct {
	rw   io.ReadWriteCloser
	in   *frameReader
	info Info
	done chan struct{}
	wake chan struct{} // there are frames to send
	wg   sync.WaitGroup

	mu         sync.Mutex
	channels   map[uint32]*channel
	port       int        // of the job's server, as the relay knows it
	last       uint32     // the newest channel's number
	out        []byte     // frames to send
	room       *sync.Cond // out has become shorter, or never will
	unanswered int        // pings
	ended      bool
	closing    bool
	err        error
}

// Start sends the relay to a process that runs [Command], and waits until it responds. It
// closes rw if that fails; else Close does.
func Start(ctx context.Context, rw io.ReadWriteCloser, o Options) (*Conn, error) {
	return start(ctx, rw, o, silence)
}

func start(ctx context.Context, rw io.ReadWriteCloser, o Options, silence time.Duration) (*Conn, error) {
	c := newConnection(rw)
	c.port = o.Port
	stop := context.AfterFunc(ctx, func() { _ = rw.Close() })
	err := c.greet(o, silence)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = rw.Close()
		return nil, err
	}
	c.wg.Go(c.read)
	c.wg.Go(c.write)
	return c, nil
}

func newConnection(rw io.ReadWriteCloser) *Conn {
	c := &Conn{
		rw: rw, in: newFrameReader(rw), done: make(chan struct{}), wake: make(chan struct{}, 1), channels: map[uint32]*channel{},
	}
	c.room = sync.NewCond(&c.mu)
	return c
}

// greet sends the relay and reads its first frame.
func (c *Conn) greet(o Options, silence time.Duration) error {
	h := hello{Mark: "tunctl-" + rand.Text(), Job: o.Job, Port: o.Port, Silence: silence.Seconds()}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, sent := fmt.Fprintf(c.rw, "%d\n%s%s\n", len(relay), relay, line)
	if err := c.in.skipTo(h.Mark); err != nil {
		return err // it may say more than why sending failed
	}
	if sent != nil {
		return fmt.Errorf("%w: %w", errNoWelcome, sent)
	}
	f, err := c.in.next()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoWelcome, noEOF(err))
	}
	if f.kind != kindHello || f.channel != 0 || json.Unmarshal(f.payload, &c.info) != nil {
		return errBroken
	}
	return nil
}

// Info is what the relay found out when it started.
func (c *Conn) Info() Info { return c.info }

// SetServer tells the port of the job's server, for programs that start later; see
// [Options].
func (c *Conn) SetServer(port int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if port != c.port {
		c.port = port
		c.sendLocked(0, kindServer, binary.BigEndian.AppendUint32(nil, uint32(port)))
	}
}

// Done is closed when the relay has ended, or the way to it was lost. Err says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the relay ended; nil if Close ended it.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

var (
	errClosed = errors.New("the relay inside the job was closed")
	errEnded  = errors.New("the relay inside the job ended")
	errSilent = errors.New("the relay inside the job does not respond")
)

// Close ends the relay and everything that it runs.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.sendLocked(0, kindEnd, nil)
	c.mu.Unlock()
	late := time.NewTimer(endTimeout)
	defer late.Stop()
	select {
	case <-c.done:
	case <-late.C:
		c.end(nil)
	}
	c.wg.Wait()
	return nil
}

// end ends the connection, once.
func (c *Conn) end(why error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended = true
	if !c.closing {
		c.err = why
	}
	for _, ch := range c.channels {
		ch.err = c.downLocked()
		ch.removeLocked()
	}
	c.room.Broadcast()
	c.mu.Unlock()
	close(c.done)
	_ = c.rw.Close()
}

// downLocked is what is wrong with a connection that has ended.
func (c *Conn) downLocked() error {
	if c.err == nil {
		return errClosed
	}
	return c.err
}

func (c *Conn) down() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.downLocked()
}

// read handles frames until the connection ends.
func (c *Conn) read() {
	for {
		f, err := c.in.next()
		if errors.Is(err, io.EOF) {
			err = errEnded
		}
		if err == nil {
			err = c.handle(f)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

func (c *Conn) handle(f frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.channel == 0 {
		if f.kind != kindPing {
			return fmt.Errorf("%w: kind %d for no channel", errBroken, f.kind)
		}
		c.unanswered = 0
		return nil
	}
	ch := c.channels[f.channel]
	switch {
	case ch != nil:
		return ch.handleLocked(f)
	case f.channel > c.last:
		return fmt.Errorf("%w: channel %d was never opened", errBroken, f.channel)
	}
	return nil // we have closed it meanwhile
}

// sendLocked sends a frame without waiting.
func (c *Conn) sendLocked(channel uint32, kind byte, payload []byte) {
	if c.ended {
		return
	}
	c.out = appendFrame(c.out, channel, kind, payload)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write sends frames and pings until the connection ends.
func (c *Conn) write() {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	var sending []byte
	for {
		select {
		case <-c.done:
			return
		case <-ping.C:
			c.ping()
		case <-c.wake:
		}
		for {
			if sending = c.take(sending); len(sending) == 0 {
				break
			}
			if _, err := c.rw.Write(sending); err != nil {
				c.end(fmt.Errorf("the way to the relay inside the job was lost: %w", noEOF(err)))
				return
			}
		}
	}
}

// take exchanges the frames to send for those that were sent.
func (c *Conn) take(sent []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	sending := c.out
	c.out = sent[:0]
	c.room.Broadcast()
	return sending
}

func (c *Conn) ping() {
	c.mu.Lock()
	c.unanswered++
	lost := c.unanswered > maxUnanswered
	c.sendLocked(0, kindPing, nil)
	c.mu.Unlock()
	if lost {
		c.end(errSilent)
	}
}
