package tunnel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

const (
	// readBuffer replaces x/crypto's 4 KB, which cost a fifth of the speed.
	readBuffer = 256 << 10
	// A server may send a few lines before its version (RFC 4253, section 4.2).
	maxGreetingLines = 50
	maxGreeting      = 8 << 10
)

// What a port can send instead of an SSH greeting.
var (
	errSilent         = errors.New("the server sent no banner")
	errAddressRefused = errors.New("the server refuses this address")
)

// wire is the byte stream under an SSH connection. It checks the server's greeting
// before the library sees it, buffers, and knows when it last received anything.
type wire struct {
	net.Conn
	r          *bufio.Reader
	onGreeting func() // called once, after the greeting

	received, sent atomic.Int64 // bytes
	loggedIn       atomic.Bool  // only the end of the stream ends a read
	greeted        atomic.Bool

	mu       sync.Mutex
	onEnd    func() // called once, when reading failed, before Read returns
	readErr  error  // why reading ended
	writeErr error  // why writing failed
	lastRead time.Time
	reads    int
	closing  sync.Once
	closed   chan struct{}
}

func newWire(raw net.Conn) *wire {
	w := &wire{Conn: raw, onGreeting: func() {}, onEnd: func() {}, lastRead: time.Now(), closed: make(chan struct{})}
	w.r = bufio.NewReaderSize(rawReader{w}, readBuffer)
	return w
}

// rawReader reads from the stream under a wire. A channel that is closed here continues to wait
// for a carrier that does not respond, so a login through one reads beside it.
type rawReader struct{ *wire }

// Read implements io.Reader.
func (w rawReader) Read(p []byte) (int, error) {
	through, ok := w.Conn.(*channelConn)
	if !ok || w.loggedIn.Load() {
		return w.Conn.Read(p)
	}
	var n int
	var err error
	read := make(chan struct{})
	started := through.link.spawn(func() {
		defer close(read)
		n, err = through.Read(p)
	})
	if !started {
		return 0, through.link.downError()
	}
	select {
	case <-read:
		return n, err
	case <-w.closed:
		return 0, net.ErrClosed
	}
}

// hasAddress reports whether the stream's own address is one of this computer's, by has;
// nil: all are.
func (w *wire) hasAddress(has func(netip.Addr) bool) bool {
	if through, ok := w.Conn.(*channelConn); ok {
		return through.link.hasAddress()
	}
	at, ok := w.LocalAddr().(*net.TCPAddr)
	return !ok || has == nil || !at.IP.IsGlobalUnicast() || has(at.AddrPort().Addr().Unmap())
}

// Read implements net.Conn. Only the library's one reader calls it. It returns nothing
// before a proper greeting, so that no login is tried at a captive portal. Our own
// greeting does not wait for that, which would cost a round trip.
func (w *wire) Read(p []byte) (n int, err error) {
	if !w.greeted.Load() {
		if err = checkGreeting(w.r); err == nil {
			w.greeted.Store(true)
			w.onGreeting()
		}
	}
	if err == nil {
		n, err = w.r.Read(p)
	}
	w.received.Add(int64(n))
	w.mu.Lock()
	if n > 0 {
		w.lastRead = time.Now()
		w.reads++
	}
	failed := err != nil && w.readErr == nil
	if failed {
		w.readErr = err
	}
	ended := w.onEnd
	w.mu.Unlock()
	if failed {
		ended()
	}
	return n, err
}

// Write implements net.Conn. A port that is no SSH server may hang up on our greeting;
// what it sent before, which the next Read finds, says more than the failed write.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.sent.Add(int64(n))
	if err != nil && !w.greeted.Load() {
		return len(p), nil
	}
	if err != nil {
		w.mu.Lock()
		w.writeErr = err
		w.mu.Unlock()
	}
	return n, err
}

// checkGreeting looks for a version line among the first lines, without consuming them.
func checkGreeting(r *bufio.Reader) error {
	for need := 1; ; {
		text, err := r.Peek(need)
		if err == nil {
			text, _ = r.Peek(min(r.Buffered(), maxGreeting))
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		for i, line := range lines {
			whole := bytes.HasSuffix(line, []byte("\n"))
			if bytes.HasPrefix(line, []byte("SSH-")) {
				return nil
			}
			if bytes.Contains(line, []byte("Not allowed at this time")) {
				return errAddressRefused
			}
			if i == 0 && isOtherProtocol(line) || whole && i == maxGreetingLines || len(text) >= maxGreeting {
				return fmt.Errorf("the server sent %q", firstLine(text))
			}
		}
		if err != nil {
			if len(text) > 0 {
				return fmt.Errorf("the server sent %q", firstLine(text))
			}
			return err
		}
		need = len(text) + 1
	}
}

// isOtherProtocol recognizes what commonly answers instead of sshd.
func isOtherProtocol(line []byte) bool {
	starts := []string{"HTTP/", "<", "\x15\x03", "220 ", "* OK"}
	return slices.ContainsFunc(starts, func(start string) bool { return bytes.HasPrefix(line, []byte(start)) })
}

func firstLine(text []byte) api.RemoteText {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return api.NewRemoteText(string(line)).FirstLine(80)
}

// notSSH describes a wrong greeting.
func notSSH(address string, greeting error) *api.Error {
	if proxy, ok := errors.AsType[*proxyError](greeting); ok {
		return proxy.describe(address)
	}
	e := failure.Passing.Errorf(api.CodeUnreachable, greeting, "%s does not respond as an SSH server: %v", address, greeting).
		WithHint("a captive portal or a VPN that is off often looks like this: open a web page, and check the VPN")
	if errors.Is(greeting, io.EOF) || failure.IsConnReset(greeting) {
		e.Message = fmt.Sprintf("%s closed the connection at once", address)
		e.Hint = "the login node may be overloaded or have blocked this address; a VPN that is off can look like this too"
	}
	if errors.Is(greeting, errAddressRefused) {
		return addressRefused(address, greeting)
	}
	return e
}

// addressRefused describes a penalty of sshd (PerSourcePenalties).
func addressRefused(address string, cause error) *api.Error {
	return failure.Banned.Errorf(api.CodeUnreachable, cause,
		"%s refuses connections from this network for a while (often because of failed logins by others behind the same address)", address).
		WithHint("sshd usually ends this within 10 minutes; other users of a shared VPN count too")
}

// badGreeting is what came instead of a greeting, unless we closed the connection.
func (w *wire) badGreeting() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.greeted.Load() || errors.Is(w.readErr, net.ErrClosed) || errors.Is(w.readErr, io.ErrClosedPipe) {
		return nil
	}
	return w.readErr
}

// heard is when the last bytes came, and the number of reads so far.
func (w *wire) heard() (last time.Time, reads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastRead, w.reads
}

// lastHeard is when the last bytes came.
func (w *wire) lastHeard() time.Time {
	last, _ := w.heard()
	return last
}

// ending is how the stream ended: the other end closed it, or what carries it failed.
func (w *wire) ending() (hungUp bool, lost error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.readErr == nil {
		return false, w.writeErr
	}
	proxy, ok := errors.AsType[*proxyError](w.readErr)
	if w.readErr == io.EOF || ok && !proxy.reason.Lost { //nolint:errorlint // one that is wrapped is that of a link
		return true, nil
	}
	return false, w.readErr
}

// setOnEnd replaces onEnd. It reports false if reading has already failed.
func (w *wire) setOnEnd(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onEnd = f
	return w.readErr == nil
}

// Close implements net.Conn. It may be called repeatedly.
func (w *wire) Close() error {
	w.closing.Do(func() {
		close(w.closed)
		_ = w.Conn.Close()
	})
	return nil
}
