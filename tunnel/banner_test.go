package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
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

// FuzzServerReplies throws bytes at the handshake: it must end, with an error in
// words, and let go of its connection.
func FuzzServerReplies(f *testing.F) {
	for _, seed := range []string{
		"", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\n\r\n", "SSH-1.5-old\n", "SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14",
		"SSH-2.0-x\r\n\xff\xff\xff\xff", "SSH-2.0-x\r\n\x00\x00\x00\x2c\x04\x01\x00\x00\x00\x02\x00\x00\x00\x03bye", "Not allowed at this time\r\n",
	} {
		f.Add([]byte(seed))
	}
	p := NewPool(Options{Limits: PracticeLimits(), Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, reply []byte) {
		raw := &answering{bytes.NewReader(reply), make(chan struct{})}
		h := newHost(p, "fuzz", "fuzz", nil)
		try := &attempt{host: h, pool: p, log: h.log, settings: Settings{Hostname: "fuzz", Port: 22, User: "u", StrictHostKeyChecking: "yes"}}
		_, err := try.handshake(context.Background(), raw)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Message == "" {
			t.Fatalf("%q: %v", reply, err)
		}
		<-raw.closed
	})
}
