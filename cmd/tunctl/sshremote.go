package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/term"
)

// remote is a shell or command on a host, joined to this terminal.
type remote struct {
	t       *term.Terminal
	command string // none: a shell
	tty     bool
}

// run returns how the command ended. With a terminal, Ctrl-C reaches the command as a
// key; else as a signal, and we end.
func (r *remote) run(ctx context.Context, conn *ssh.Client) error {
	s, err := conn.NewSession()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	stdin, err := s.StdinPipe()
	if err != nil {
		return err
	}
	s.Stdout, s.Stderr = r.t.Out, r.t.Err
	sendLocale(s)
	if r.tty {
		restore, err := r.takeTerminal(ctx, s)
		if err != nil {
			return err
		}
		defer restore()
	}
	if r.command == "" {
		err = s.Shell()
	} else {
		err = s.Start(r.command)
	}
	if err != nil {
		return err
	}
	go func() { // a read of standard input cannot be cancelled: it ends with the program
		_, _ = io.Copy(stdin, r.t.In)
		_ = stdin.Close()
	}()
	defer context.AfterFunc(ctx, func() {
		_ = s.Signal(ssh.SIGINT)
		_ = s.Close()
	})()
	err = s.Wait()
	if ctx.Err() != nil {
		return silentError(exitInterrupted)
	}
	return err
}

// sendLocale sends what sshd takes nearly everywhere. No answers are asked for: each
// would cost a round trip.
func sendLocale(s *ssh.Session) {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if name == "LANG" || strings.HasPrefix(name, "LC_") {
			_, _ = s.SendRequest("env", false, ssh.Marshal(struct{ Name, Value string }{name, value}))
		}
	}
}

// takeTerminal asks for a terminal like ours, keeps it of our size, and puts ours into
// raw mode; restore undoes that.
func (r *remote) takeTerminal(ctx context.Context, s *ssh.Session) (restore func(), err error) {
	width, height, err := term.Size(r.t.Out)
	if err != nil {
		width, height = 80, 24
	}
	if !hasTerminal(s, width, height) {
		r.t.Say("tunctl: the host refused a terminal; continuing without one")
		return func() {}, nil
	}
	undo, err := term.MakeRaw(r.t.In)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	go term.OnResize(ctx, func() {
		if w, h, err := term.Size(r.t.Out); err == nil && (w != width || h != height) {
			width, height = w, h
			_ = s.WindowChange(h, w)
		}
	})
	return func() {
		stop()
		undo()
	}, nil
}

// hasTerminal reports whether the host gave the session a terminal of that size.
func hasTerminal(s *ssh.Session, width, height int) bool {
	kind := cmp.Or(os.Getenv("TERM"), "xterm")
	return s.RequestPty(kind, height, width, ssh.TerminalModes{ssh.ECHO: 1}) == nil
}
