package tunnel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// steering is what a hostile server says: a title, a cleared screen, a turned direction.
const steering = "bye\x1b]0;owned\x07\x1b[2J\u202e"

// disconnected is the library's error for a server that hung up; older versions of it
// did not quote the server's words.
func disconnected(quoted bool) error {
	if quoted {
		return fmt.Errorf("ssh: handshake failed: %w", fmt.Errorf("ssh: disconnect, reason 11: %q", steering))
	}
	return fmt.Errorf("ssh: handshake failed: ssh: disconnect, reason 11: %s", steering)
}

func TestRemoteText(t *testing.T) {
	t.Run("of a server steers no terminal", func(t *testing.T) {
		try := func() *attempt {
			near, far := net.Pipe()
			t.Cleanup(func() { _, _ = near.Close(), far.Close() })
			at := attemptOf(newHost(newPool(Options{Limits: DefaultLimits()}), "login", ""), func(a *attempt) { a.settings = sshconfig.Settings{Hostname: "login", Port: 22, User: "alice"} })
			at.wire = newWire(near)
			at.wire.greeted.Store(true)
			at.ask.timeout = newTimeout(time.Hour, func() {})
			t.Cleanup(at.ask.timeout.stop)
			return at
		}
		loggingIn := func() (*attempt, *login) {
			at := try()
			at.loginAt = time.Now()
			l := newLogin(t.Context(), at)
			l.offered = true
			return at, l
		}
		said := newStderrBuffer()
		_, _ = io.WriteString(said, steering)
		for name, show := range map[string]func() error{
			"before the login":         func() error { return try().explain(&login{}, disconnected(false)) },
			"before the login, quoted": func() error { return try().explain(&login{}, disconnected(true)) },
			"during the login":         func() error { at, l := loggingIn(); return at.explain(l, disconnected(false)) },
			"during the login, quoted": func() error { at, l := loggingIn(); return at.explain(l, disconnected(true)) },
			"after the login":          func() error { return (&conn{why: disconnected(false)}).endReason() },
			"after the login, quoted":  func() error { return (&conn{why: disconnected(true)}).endReason() },
			"any other end":            func() error { return (&conn{why: errors.New(steering)}).endReason() },
			"any other failure":        func() error { return asError(errors.New(steering)) },
			"no algorithm": func() error {
				return try().explain(&login{}, fmt.Errorf("x: %w", &ssh.AlgorithmNegotiationError{What: steering, RequestedAlgorithms: []string{steering}}))
			},
			"a greeting":     func() error { return checkGreeting(bufio.NewReader(strings.NewReader("220 " + steering))) },
			"a proxy":        func() error { return &proxyError{said: said.tail()} },
			"a failed dial":  func() error { return dialError("db:5432", &ssh.OpenChannelError{Message: steering}) },
			"a failed dial ": func() error { return dialError("db:5432", errors.New(steering)) },
			"a command":      func() error { _, err := exitStatus(errors.New(steering)); return err },
		} {
			t.Run(name, func(t *testing.T) {
				err := show()
				for _, text := range []string{err.Error(), fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err)} {
					if strings.ContainsFunc(text, steers) || strings.ContainsRune(text, '\u202e') {
						t.Errorf("shown as %q", text)
					}
				}
				if !strings.Contains(err.Error(), "bye") && name != "no algorithm" {
					t.Errorf("what it said is lost: %q", err)
				}
			})
		}
	})
	t.Run("of a question steers no terminal", simulated(func(t *testing.T) {
		b := newBenchOf(t, nil, nil)
		b.person.answers = []string{"no"}
		at := attemptOf(b.Host("login"), func(a *attempt) { a.ask.attended = true })
		if _, err := at.ask.Prompt(t.Context(), api.Prompt{Text: steering, Instruction: steering}); err != nil {
			t.Fatal(err)
		}
		if q := b.person.questions(); q[0].Text != "bye" || q[0].Instruction != "bye" {
			t.Errorf("asked %q and %q", q[0].Text, q[0].Instruction)
		}
	}))
	t.Run("of a certificate steers no terminal", simulated(func(t *testing.T) {
		ca := sshtest.NewSigner(t)
		key := sshtest.NewSigner(t)
		cert := sshtest.Certify(t, ca, key.PublicKey(), nil)
		cert.Signature.Format = steering // anybody can name an authority that has signed nothing
		signer, err := ssh.NewCertSigner(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		s := sshtest.NewServerWithKey(t, signer, sshtest.AcceptAnybody)
		_, _, err = connectWith(t, "@cert-authority login "+sshtest.Authorized(ca.PublicKey())+"\n", s, nil)
		if err == nil || !strings.Contains(err.Error(), "is not valid") || strings.ContainsFunc(err.Error(), steers) || strings.ContainsRune(err.Error(), '\u202e') {
			t.Errorf("%q", err)
		}
	}))
	t.Run("too many failures give the hint to name one key", func(t *testing.T) {
		l := newLogin(t.Context(), attemptOf(&Host{pool: newPool(Options{})}, func(a *attempt) {
			a.wire = deadEnd(t).wire
			a.settings = sshconfig.Settings{Hostname: "login", Port: 22, User: "alice"}
		}))
		l.offered, l.allowed, l.last = true, []string{methodKey}, methodKey
		e := l.refused(fmt.Errorf("ssh: handshake failed: ssh: disconnect, reason 2: %q", "Too many authentication failures"))
		if !strings.Contains(e.Hint, "IdentitiesOnly") || !strings.Contains(e.Message, "the server said: Too many authentication failures") {
			t.Errorf("%s; hint: %s", e.Message, e.Hint)
		}
	})
}

// deadEnd is a connection of which only the words of its errors matter.
func deadEnd(t *testing.T) *conn {
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return &conn{wire: newWire(near), done: make(chan struct{})}
}
