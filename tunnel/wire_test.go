package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

func TestAGreetingMayFollowOtherLines(t *testing.T) {
	for text, ok := range map[string]bool{
		"SSH-2.0-OpenSSH_9.2\r\n":                          true,
		"Welcome to the cluster\r\nPlease behave\r\nSSH-2": true,
		strings.Repeat("motd\n", 49) + "SSH-2.0-x\n":       true,
		strings.Repeat("motd\n", 60) + "SSH-2.0-x\n":       false,
		strings.Repeat("x", 10000):                         false,
		"HTTP/1.0 200 OK\r\nSSH-2.0-x\r\n":                 false,
		"nothing of the kind\n":                            false,
		"":                                                 false,
	} {
		// one byte at a time, as a slow network may
		err := checkGreeting(bufio.NewReaderSize(&slowly{text}, readBuffer))
		if (err == nil) != ok {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

type slowly struct{ text string }

func (s *slowly) Read(p []byte) (int, error) {
	if s.text == "" {
		return 0, io.EOF
	}
	p[0], s.text = s.text[0], s.text[1:]
	return 1, nil
}

// answering is a connection whose other end has said all it will say, and then
// hangs up.
type answering struct {
	io.Reader
	closed chan struct{}
}

func (a *answering) Write(p []byte) (int, error)      { return len(p), nil }
func (a *answering) Close() error                     { close(a.closed); return nil }
func (a *answering) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (a *answering) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (a *answering) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (a *answering) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (a *answering) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// thrift fails a test whose calls, however many, leave something behind. What the
// fuzzer itself keeps is in use at the first look already.
type thrift struct {
	calls int
	first uint64
}

func (c *thrift) check(t *testing.T) {
	t.Helper()
	if c.calls++; c.calls%1000 != 0 {
		return
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if c.first == 0 {
		c.first = m.HeapAlloc
	}
	if n := runtime.NumGoroutine(); m.HeapAlloc > c.first+16<<20 || n > 100 {
		t.Fatalf("%d MB in use after %d replies, %d MB at first, %d goroutines", m.HeapAlloc>>20, c.calls, c.first>>20, n)
	}
}

// FuzzServerReplies throws bytes at the handshake: it must end, with an error in
// words, let go of its connection, and keep no memory.
func FuzzServerReplies(f *testing.F) {
	for _, seed := range []string{
		"", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\n\r\n", "SSH-1.5-old\n", "SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14",
		"SSH-2.0-x\r\n\xff\xff\xff\xff", "SSH-2.0-x\r\n\x00\x00\x00\x2c\x04\x01\x00\x00\x00\x02\x00\x00\x00\x03bye", "Not allowed at this time\r\n",
	} {
		f.Add([]byte(seed))
	}
	p := newPool(Options{Limits: PracticeLimits(), Log: slog.New(slog.DiscardHandler)})
	var memory thrift
	f.Fuzz(func(t *testing.T, reply []byte) {
		memory.check(t)
		raw := &answering{bytes.NewReader(reply), make(chan struct{})}
		h := newHost(p, "fuzz", "")
		try := attemptOf(h, func(a *attempt) {
			a.settings = sshconfig.Settings{Hostname: "fuzz", Port: 22, User: "u", StrictHostKeyChecking: "yes"}
		})
		_, err := try.handshake(context.Background(), raw)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Message == "" {
			t.Fatalf("%q: %v", reply, err)
		}
		<-raw.closed
	})
}

// FuzzServerWords has a proper server say whatever it likes before and during a
// login: nothing of it may steer a terminal, or be without end.
func FuzzServerWords(f *testing.F) {
	f.Add("Welcome to the cluster", "Duo two-factor login for alice", "Passcode or option (1-3): ", true)
	f.Add("\x1b]0;owned\a\x1b[2J", "\x9b31m\r", "\x00\xff\u009b", false)
	f.Add(strings.Repeat("motd\n", 5000), strings.Repeat("é", 5000), strings.Repeat("?", 5000), false)
	var memory thrift
	f.Fuzz(func(t *testing.T, banner, instruction, question string, echo bool) {
		memory.check(t)
		s := sshtest.NewServer(t, sshtest.Banner(banner), sshtest.Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
			_, err := ask("", instruction, []string{question}, []bool{echo})
			return err
		}))
		b := newBench(t, s, nil)
		b.person.answers = []string{"1"}
		h := b.begin(t, "login")
		if err := h.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, q := range b.person.questions() {
			for _, text := range []string{q.Text, q.Instruction} {
				if len(text) > 2100 || !utf8.ValidString(text) || strings.ContainsFunc(text, steers) {
					t.Fatalf("shown: %q", text)
				}
			}
		}
		b.end()
	})
}

// steers knows the characters by which a terminal takes orders.
func steers(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
