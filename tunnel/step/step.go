// Package step runs programs and opens connections inside a job, all through one process
// there. That process is a relay, a program in Python which is sent to it on its standard
// input; nothing is installed.
//
// The package is given a running process and knows neither schedulers nor hosts.
package step

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"crypto/rand"
	"embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
)

//go:embed relay/*.py connector.py
var files embed.FS

// What is sent to the node. Of the relay's files, a class stands after the one that it extends.
var (
	relay = join("relay/protocol", "relay/where", "relay/way", "relay/entrance", "relay/channel", "relay/program", "relay/terminal",
		"relay/spool", "relay/websocket", "relay/connection", "relay/kernel", "relay/output", "relay/process", "relay/environment", "relay/relay", "relay/main")
	connector = join("relay/where", "connector")
)

// join joins files to one program.
func join(names ...string) string {
	var program strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name + ".py")
		if err != nil {
			panic(err) // it is not embedded
		}
		program.Write(append(text, '\n'))
	}
	return program.String()
}

// Command is the command that starts the relay, for a POSIX shell: `srun … sh -c
// '<Command>'`, or a login on the node. It contains no single quote. The program itself
// is sent by [Start]. Without python3 it prints a line on standard error and exits with
// 127. The last word is what process lists show.
func Command() string {
	// RHEL has a python3 of its own where none was installed. -I and -S leave out what the
	// user's environment or home folder add to Python.
	return `for p in python3 /usr/bin/python3 /usr/libexec/platform-python; do ` +
		`command -v $p >/dev/null 2>&1 && exec $p -I -S -c "import sys, zlib; i = sys.stdin.buffer; exec(zlib.decompress(i.read(int(i.readline()))))" tunctl-relay; done; ` +
		`echo "python3 is not installed on this node" >&2; exit 127`
}

// Options tell the relay about the job.
type Options struct {
	Job  string // the job's id; "": there is none, the environment is the process's own
	Port int    // of the job's server, whose environment programs get; 0: unknown
	// Resumable lets the relay outlive the way to it, so that [Conn.Resume] can continue.
	Resumable bool
	// Journals is a folder of this computer for what pages have taken; "": that may come twice after a crash.
	Journals string
	// Changed is called when what [Conn.Cells] returns has changed; nil: nobody is told.
	Changed func()
}

// Info is what the relay found out when it started.
type Info struct {
	Node    string `json:"node"`    // the name of the machine
	Inside  bool   `json:"inside"`  // the relay is part of the job
	Environ string `json:"environ"` // where the environment of programs is from: "server", "job", or "step"
	Where   string `json:"where"`   // see Ticket
}

const (
	pingEvery = 15 * time.Second
	// silence is how long the relay lives if it hears nothing: Slurm does not tell a step
	// that its srun was killed. A laptop may sleep for some minutes and keep its connection,
	// and then its shells stay, too.
	silence = 10 * time.Minute
	// Hold is the same inside the job while something waits for a client that can come back: a
	// channel, or what was printed on one and not acknowledged.
	Hold = 12 * time.Hour
	// maxUnanswered is how many pings in a row may have no answer. That is two minutes, as
	// long as the keepalive of an SSH connection waits: a stall that the connection survives
	// must not end the shells.
	maxUnanswered = 8
	// outLimit is how many bytes may wait to be sent before writers wait, and keptLimit how
	// many may wait to be acknowledged.
	outLimit  = 128 << 10
	keptLimit = 32 << 20
	// mostKept ends the connection: what a relay can make us send grew beyond reason.
	mostKept = 2 * keptLimit
	// ackEvery is how many bytes are received before the relay is told.
	ackEvery = 256 << 10
	// endTimeout bounds how long Close waits for the relay.
	endTimeout = 3 * time.Second
)

// Conn is a running relay. Its channels are independent: a slow one does not hold up the
// others.
type Conn struct {
	in     *frameReader
	info   Info
	ticket Ticket
	done   chan struct{}
	wg     sync.WaitGroup

	resuming sync.Mutex // held by Resume
	attempts uint64     // of Resume

	mu         sync.Mutex
	stream     *stream
	channels   map[uint32]*channel
	port       int    // of the job's server, as the relay knows it
	last       uint32 // the newest channel's number
	unanswered int    // pings
	paused     int    // channels that waited while the last way was lost
	ended      bool
	closing    bool
	err        error
	farewell   bool                 // the relay said that it ends
	known      map[pageKey][]string // the journals of pages for which it may keep a kernel
	journals   string               // their folder; "": there is none
	cells      api.Cells
	tellsCells bool   // cells is what the relay has told
	told       func() // cells has changed
}

// Start sends the relay to a process that runs [Command], and waits until it responds. It
// closes rw if that fails; else Close does.
func Start(ctx context.Context, rw io.ReadWriteCloser, o Options) (*Conn, error) {
	return start(ctx, rw, o, silence, Hold)
}

func start(ctx context.Context, rw io.ReadWriteCloser, o Options, silence, hold time.Duration) (*Conn, error) {
	c := newConnection(o)
	h := hello{Mark: newMark(), Job: o.Job, Port: o.Port, Silence: silence.Seconds(), Hold: hold.Seconds()}
	if o.Resumable {
		c.ticket = Ticket{Socket: "tunctl-" + rand.Text(), Secret: rand.Text(), Protocol: protocol}
		h.Ticket = c.ticket
	}
	err := launch(ctx, rw, relay, h.Mark, h, func(in *bufio.Reader) error {
		c.mu.Lock()
		c.stream.openLocked(&way{rw, in})
		c.mu.Unlock()
		return c.welcome()
	})
	if err != nil {
		return nil, err
	}
	if o.Resumable {
		c.ticket.Where = c.info.Where
	}
	c.serve(o.Resumable)
	return c, nil
}

// serve handles what the relay sends from now on.
func (c *Conn) serve(resumes bool) {
	c.mu.Lock()
	c.stream.resumes = resumes
	c.mu.Unlock()
	c.wg.Go(c.read)
	c.wg.Go(c.keepAlive)
}

func newConnection(o Options) *Conn {
	c := &Conn{done: make(chan struct{}), channels: map[uint32]*channel{}, port: o.Port, known: map[pageKey][]string{}, journals: o.Journals, told: o.Changed}
	c.stream = &stream{mu: &c.mu, changed: sync.NewCond(&c.mu)}
	c.in = newFrameReader(c.stream)
	return c
}

func newMark() string { return "tunctl-" + rand.Text() }

// launch sends a program with its options to a process that runs [Command], and has use go on where
// the program's mark ends. It closes rw when ctx ends, or if that fails.
func launch(ctx context.Context, rw io.ReadWriteCloser, program, mark string, options any, use func(*bufio.Reader) error) error {
	stop := context.AfterFunc(ctx, func() { _ = rw.Close() })
	in, err := send(rw, program, mark, options)
	if err == nil {
		err = use(in)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = rw.Close()
	}
	return err
}

// pack compresses a program: it is sent at each start, perhaps over a slow network.
func pack(program string) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = io.WriteString(w, program)
	_ = w.Close() // it cannot fail
	return b.Bytes()
}

// send sends a program with its options to a process that runs [Command]. What it returns
// begins after the program's mark.
func send(rw io.ReadWriter, program, mark string, options any) (*bufio.Reader, error) {
	line, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	packed := pack(program)
	_, sent := fmt.Fprintf(rw, "%d\n%s%s\n", len(packed), packed, line)
	in := bufio.NewReaderSize(rw, bufferSize)
	if err := skipTo(in, mark); err != nil {
		return nil, err // it may say more than why sending failed
	}
	if sent != nil {
		return nil, fmt.Errorf("%w: %w", errNoWelcome, sent)
	}
	return in, nil
}

// welcome reads the relay's first frame.
func (c *Conn) welcome() error {
	f, err := c.in.next()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoWelcome, noEOF(err))
	}
	var hello struct {
		Info
		Kernels []Kernel // that it keeps from the client before
	}
	if f.kind != kindHello || f.channel != 0 || json.Unmarshal(f.payload, &hello) != nil {
		return errBroken
	}
	c.info = hello.Info
	for _, k := range hello.Kernels {
		c.known[k.page()] = append(c.known[k.page()], k.Journal)
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
	errClosed = errors.New("the connection into the job was closed")
	errEnded  = errors.New("the process of tunctl inside the job ended")
	errSilent = errors.New("the process of tunctl inside the job does not respond")
)

// Close ends the relay and everything that it runs. The error is [ErrNotTold] if a relay that
// may be resumed could not be told: [End] can do that later.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.sendLocked(0, kindEnd, nil)
	c.mu.Unlock()
	select {
	case <-c.done:
	case <-c.Lost(): // the relay's answer may have come before
		c.end(nil)
	case <-time.After(endTimeout):
		c.end(nil)
	}
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone := c.farewell || errors.Is(c.err, ErrGone); c.ticket.Secret != "" && !gone {
		return ErrNotTold
	}
	return nil
}

// Fail ends the connection, whose channels fail with why: nobody will come back to the relay.
func (c *Conn) Fail(why error) { c.end(why) }

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
	c.stream.endLocked(io.EOF)
	c.mu.Unlock()
	close(c.done)
}

// downLocked is what is wrong with a connection that has ended.
func (c *Conn) downLocked() error {
	return cmp.Or(c.err, errClosed)
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
	ch := c.channels[f.channel]
	// Without channels the relay waits only for a client that has not got all.
	if c.stream.received-c.stream.told >= ackEvery || f.kind == kindClose {
		c.acknowledgeLocked()
	}
	if f.channel == 0 {
		return c.handleOwnLocked(f)
	}
	switch {
	case ch != nil:
		return ch.handleLocked(f)
	case f.channel > c.last:
		return fmt.Errorf("%w: channel %d was never opened", errBroken, f.channel)
	}
	return nil // we have closed it meanwhile
}

// handleOwnLocked handles a frame for no channel.
func (c *Conn) handleOwnLocked(f frame) error {
	switch f.kind {
	case kindPing:
		c.unanswered = 0
	case kindAck:
		if len(f.payload) != 8 || !c.stream.acknowledgeLocked(binary.BigEndian.Uint64(f.payload)) {
			return fmt.Errorf("%w: it acknowledged what it was not sent", errBroken)
		}
	case kindEnd:
		c.farewell = len(f.payload) == 0 // else it is kept for pages
		return errEnded
	case kindKernels:
		return c.setCellsLocked(f.payload)
	default:
		return fmt.Errorf("%w: kind %d for no channel", errBroken, f.kind)
	}
	return nil
}

// acknowledgeLocked tells the relay what need not be sent again.
func (c *Conn) acknowledgeLocked() {
	c.stream.told = c.stream.received
	c.sendLocked(0, kindAck, binary.BigEndian.AppendUint64(nil, c.stream.received))
}

// sendLocked sends a frame without waiting.
func (c *Conn) sendLocked(channel uint32, kind byte, payload []byte) {
	if c.ended {
		return
	}
	c.stream.kept = appendFrame(c.stream.kept, channel, kind, payload)
	c.stream.changed.Broadcast()
	if len(c.stream.kept) > mostKept {
		c.stream.endLocked(fmt.Errorf("%w: it acknowledges nothing", errBroken))
	}
}

// keepAlive sends pings until the connection ends.
func (c *Conn) keepAlive() {
	for {
		select {
		case <-c.done:
			return
		case <-time.After(pingEvery):
			c.ping()
		}
	}
}

func (c *Conn) ping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream.way == nil {
		return
	}
	if c.unanswered++; c.unanswered > maxUnanswered {
		c.stream.loseLocked(errSilent)
		return
	}
	c.sendLocked(0, kindPing, nil)
	c.acknowledgeLocked()
}
