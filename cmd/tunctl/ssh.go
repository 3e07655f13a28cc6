package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/cmdline"
	"tunctl/internal/gateway"
	"tunctl/internal/term"
)

// exitConnectionFailed is the exit status of `tunctl ssh` when it fails itself, not the
// command.
const exitConnectionFailed = 255

func sshCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      cmdline.SSHCommand,
		Usage:     "run a shell or a command on a host or inside a job",
		ArgsUsage: "HOST|SESSION [COMMAND...]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "login-node", Usage: "go to the login node of SESSION, not inside its job"},
			&cli.StringFlag{Name: "node", Usage: "go to this `NODE` of the job: its name, or its number from 0"},
			&cli.BoolFlag{Name: "t", Usage: "allocate a terminal for the command"},
			&cli.BoolFlag{Name: "T", Usage: "never allocate a terminal"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return usagef("ssh takes a host or a session and, optionally, a command, as in `tunctl ssh narval` or `tunctl ssh jupyter nvidia-smi`")
			}
			err := invokeInterruptible(t, shell)(c)
			if _, said := errors.AsType[exitError](err); err == nil || said {
				return err
			}
			printError(t, err)
			return exitError(exitConnectionFailed)
		},
	}
}

func shell(ctx context.Context, inv *invocation) error {
	name, words := inv.Args().First(), inv.Args().Tail()
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if inv.Bool("login-node") && inv.String("node") != "" {
		return usagef("--login-node and --node exclude each other")
	}
	find := inv.destination
	if inv.Bool("login-node") {
		find = inv.loginNode
	}
	req, err := find(ctx, name)
	if err != nil {
		return err
	}
	req.Node = cmp.Or(inv.String("node"), req.Node)
	began := time.Now()
	conn, err := dialGateway(ctx, inv, req)
	if isLost(err) && ctx.Err() == nil {
		return whyLost(ctx, inv, name, req, began)
	}
	if err != nil {
		return inv.withNearSession(name, err)
	}
	defer func() { _ = conn.Close() }()
	tty := term.IsTerminal(inv.In) && term.IsTerminal(inv.Out) && !inv.Bool("T") && (len(words) == 0 || inv.Bool("t"))
	err = runRemote(ctx, inv.Terminal, conn, strings.Join(words, " "), tty)
	if !isLost(err) || ctx.Err() != nil {
		return exitOf(name, err)
	}
	if tty { // the cursor is where its program left it
		inv.Say("")
	}
	return whyLost(ctx, inv, name, req, began)
}

// isLost reports whether the connection to the agent ended before the command did, or while it was opened.
func isLost(err error) bool {
	_, missing := errors.AsType[*ssh.ExitMissingError](err)
	return missing || errors.Is(err, io.EOF)
}

// whyLost says why a shell or a command ended without an exit status, and what to run next.
func whyLost(ctx context.Context, inv *invocation, name string, req api.StreamRequest, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	hint := fmt.Sprintf("`tunctl ssh %s` connects again", name)
	st, err := inv.client.Status(ctx)
	if demoEnded(inv.paths) {
		hint = "the demo has ended, and its job with it"
	} else if errors.Is(err, client.ErrNotRunning) && req.Session != "" {
		hint = fmt.Sprintf("the job keeps running: `tunctl up %s` reconnects", req.Session)
	}
	if errors.Is(err, client.ErrNotRunning) || err == nil && st.Agent.Since.After(began) {
		return api.Errorf(api.CodeAgent, "the connection to %s ended: the agent was stopped or restarted", name).WithHint("%s", hint)
	}
	req.Kind, req.Connected, req.Unattended = api.StreamGateway, true, true
	_, err = inv.client.Stream(ctx, req) // refused with the reason, or ends with this program
	if api.HasCode(err, api.CodeJobEnded) || api.HasCode(err, api.CodeNotReady) {
		return api.Errorf(api.CodeFailed, "the connection to %s ended: %w", name, err).WithHint("%s", hintOf(err))
	}
	return lost(name, err).WithHint("%s", hint)
}

// dialGateway is an SSH client of the agent's gateway, whose host key is in the state folder.
func dialGateway(ctx context.Context, inv *invocation, req api.StreamRequest) (*ssh.Client, error) {
	key, err := gateway.HostKey(inv.paths.Gateway())
	if err != nil {
		return nil, fmt.Errorf("cannot read the host key of the agent: %w", err)
	}
	req.Kind = api.StreamGateway
	stream, err := openStream(ctx, inv.Terminal, inv.client, req)
	if err != nil {
		return nil, err
	}
	// Ctrl-C closes the stream during the handshake.
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	conn, channels, requests, err := ssh.NewClientConn(stream, gateway.Alias, &ssh.ClientConfig{
		HostKeyCallback: ssh.FixedHostKey(key.PublicKey()),
		Config:          ssh.Config{Ciphers: []string{ssh.CipherAES128GCM}},
	})
	if err != nil {
		_ = stream.Close()
		return nil, fmt.Errorf("cannot connect to the agent: %w", err)
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// exitOf is this program's error for the end of a remote command.
func exitOf(name string, err error) error {
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		if exit.Signal() != "" {
			return fmt.Errorf("%s: the command was killed by signal %s", name, api.NewRemoteText(exit.Signal()))
		}
		return exitError(exit.ExitStatus())
	}
	if _, ok := errors.AsType[*ssh.ExitMissingError](err); ok {
		return lost(name, err)
	}
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return fmt.Errorf("%s: %s", name, api.NewRemoteText(refused.Message))
	}
	return err
}

func lost(name string, err error) *api.Error {
	return api.Errorf(api.CodeUnreachable, "the connection to %s was lost", name).Because(err)
}

// runRemote joins a command on a host, or a shell if it is "", to this terminal, and returns how it ended.
// With a terminal there, Ctrl-C reaches the command as a key; without one as a signal, and this program ends.
func runRemote(ctx context.Context, t *term.Terminal, conn *ssh.Client, command string, tty bool) error {
	s, err := conn.NewSession()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	stdin, err := s.StdinPipe()
	if err != nil {
		return err
	}
	s.Stdout, s.Stderr = term.Raw(t.Out), term.Raw(t.Err)
	sendLocale(s)
	if tty {
		restore, err := allocateTerminal(ctx, t, s)
		if err != nil {
			return err
		}
		defer restore()
	}
	if command == "" {
		err = s.Shell()
	} else {
		err = s.Start(command)
	}
	if err != nil {
		return err
	}
	go func() { // a read of standard input cannot be cancelled: it ends with the program
		_, _ = io.Copy(stdin, t.In)
		_ = stdin.Close()
	}()
	defer context.AfterFunc(ctx, func() {
		_ = s.Signal(ssh.SIGINT)
		_ = s.Close()
	})()
	return s.Wait()
}

// sendLocale sends the variables that nearly every sshd accepts. It requests no replies: each
// would cost a round trip.
func sendLocale(s *ssh.Session) {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if name == "LANG" || strings.HasPrefix(name, "LC_") {
			_, _ = s.SendRequest("env", false, ssh.Marshal(struct{ Name, Value string }{name, value}))
		}
	}
}

// allocateTerminal requests a terminal like ours, keeps it the same size, and puts ours into
// raw mode; restore undoes that.
func allocateTerminal(ctx context.Context, t *term.Terminal, s *ssh.Session) (restore func(), err error) {
	width, height, sizeErr := term.Size(t.Out)
	if sizeErr != nil {
		width, height = 80, 24
	}
	kind := cmp.Or(os.Getenv("TERM"), "xterm")
	refused := s.RequestPty(kind, height, width, ssh.TerminalModes{ssh.ECHO: 1})
	if isLost(refused) {
		return nil, refused
	}
	if refused != nil {
		t.Say("tunctl: the host refused a terminal; continuing without one")
		return func() {}, nil //nolint:nilerr // as ssh does
	}
	undo, err := term.MakeRaw(t.In)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	go term.OnResize(ctx, func() {
		if w, h, err := term.Size(t.Out); err == nil && (w != width || h != height) {
			width, height = w, h
			_ = s.WindowChange(h, w)
		}
	})
	return func() {
		stop()
		undo()
	}, nil
}
