package tunnel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"tunctl/internal/api"
)

const (
	// readBuffer is what lies under the transport: x/crypto reads through 4 KB,
	// which costs a fifth of the speed.
	readBuffer = 256 << 10
	// A server may say a few lines before its version (RFC 4253, section 4.2).
	maxGreetingLines = 50
	maxGreeting      = 8 << 10
)

// What a port can say instead of an SSH greeting.
var (
	errSilent         = errors.New("the server sent no banner")
	errAddressRefused = errors.New("the server refuses this address")
)

// greetingError is a first line that no SSH server sends.
type greetingError struct{ line api.RemoteText }

func (e *greetingError) Error() string { return fmt.Sprintf("the server sent %q", e.line) }

// wire is the byte stream under an SSH connection. It looks at the server's
// greeting before the library does, buffers, and knows when it last heard anything.
type wire struct {
	net.Conn
	r          *bufio.Reader
	onGreeting func() // called once, when the greeting has come

	mu          sync.Mutex
	onEnd       func() // called once, when reading has failed and before the reader is told
	greeted     bool
	greetingErr error // what came in place of a greeting
	readErr     error // why reading ended
	writeFailed bool  // writing has failed
	lastRead    time.Time
	reads       int
	closing     sync.Once
	closeErr    error
}

func newWire(raw net.Conn) *wire {
	return &wire{Conn: raw, r: bufio.NewReaderSize(raw, readBuffer), onGreeting: func() {}, onEnd: func() {}, lastRead: time.Now()}
}

// Read implements net.Conn. Only the library's one reader calls it. Nothing is
// passed on before a proper greeting has come, so that no login is attempted at a
// captive portal; and our own greeting is not held back, which would cost a round trip.
func (w *wire) Read(p []byte) (int, error) {
	if !w.hasGreeted() {
		if err := w.greet(); err != nil {
			return 0, err
		}
	}
	n, err := w.r.Read(p)
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

// Write implements net.Conn. What says something else and hangs up makes our own
// greeting fail; its words, which the next Read finds, tell more than that failure.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil && !w.hasGreeted() {
		return len(p), nil
	}
	if err != nil {
		w.mu.Lock()
		w.writeFailed = true
		w.mu.Unlock()
	}
	return n, err
}

func (w *wire) greet() error {
	err := checkGreeting(w.r)
	w.mu.Lock()
	w.greeted, w.greetingErr, w.readErr = err == nil, err, err
	ended := w.onEnd
	w.mu.Unlock()
	if err != nil {
		ended()
		return err
	}
	w.onGreeting()
	return nil
}

// checkGreeting looks, without consuming, for a version line among the first lines.
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
				return &greetingError{firstLine(text)}
			}
		}
		if err != nil {
			if len(text) > 0 {
				return &greetingError{firstLine(text)}
			}
			return err
		}
		need = len(text) + 1
	}
}

// isOtherProtocol knows the first words of what commonly answers instead of sshd.
func isOtherProtocol(line []byte) bool {
	for _, start := range []string{"HTTP/", "<", "\x15\x03", "220 ", "* OK"} {
		if bytes.HasPrefix(line, []byte(start)) {
			return true
		}
	}
	return false
}

func firstLine(text []byte) api.RemoteText {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return api.NewRemoteText(string(line)).FirstLine(80)
}

// notSSH puts a wrong greeting into words.
func notSSH(address string, greeting error) *api.Error {
	if proxy, ok := errors.AsType[*proxyError](greeting); ok {
		return &api.Error{Code: api.CodeUnreachable, Err: classPassing.of(greeting), Message: fmt.Sprintf("%s cannot be reached: %v", address, proxy)}
	}
	e := &api.Error{
		Code: api.CodeUnreachable, Err: classPassing.of(greeting),
		Message: fmt.Sprintf("%s does not respond as an SSH server: %v", address, greeting),
		Hint:    "a captive portal or a VPN that is off often looks like this: open a web page, and check the VPN",
	}
	if errors.Is(greeting, io.EOF) || isConnReset(greeting) {
		e.Message = fmt.Sprintf("%s closed the connection at once", address)
		e.Hint = "the login node may be overloaded or have blocked this address; a VPN that is off can look like this too"
	}
	if errors.Is(greeting, errAddressRefused) {
		e.Err = classBanned.of(greeting)
		e.Hint = "sshd blocks an address for a while after failed logins; other users of a shared VPN count too"
	}
	return e
}

func (w *wire) hasGreeted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.greeted
}

// badGreeting is what came in place of a greeting, unless we hung up ourselves.
func (w *wire) badGreeting() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.greetingErr, net.ErrClosed) || errors.Is(w.greetingErr, io.ErrClosedPipe) {
		return nil
	}
	return w.greetingErr
}

// lastHeard is when the last bytes came, and how often some came before.
func (w *wire) lastHeard() (last time.Time, reads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastRead, w.reads
}

// noteRead notes a sign of life that came by another way.
func (w *wire) noteRead() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastRead = time.Now()
	w.reads++
}

// readFailed reports whether reading has failed.
func (w *wire) readFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readErr != nil
}

// setOnEnd has f called, in place of what was to be called, when reading fails. It
// reports whether that is still to come.
func (w *wire) setOnEnd(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onEnd = f
	return w.readErr == nil
}

// isBroken reports whether reading or writing has failed. A lost link may show in
// either first.
func (w *wire) isBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readErr != nil || w.writeFailed
}

// Close implements net.Conn; it may be called any number of times.
func (w *wire) Close() error {
	w.closing.Do(func() { w.closeErr = w.Conn.Close() })
	return w.closeErr
}
