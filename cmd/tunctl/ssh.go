package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/gateway"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

const sshName = "ssh"

// exitOwn is the exit status of `tunctl ssh` when the failure is not the command's.
const exitOwn = 255

func sshCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      sshName,
		Usage:     "run a shell or a command on a host, over the existing connection",
		ArgsUsage: "HOST|SESSION [COMMAND...]",
		Description: "Needs no second login and no second one-time code: it uses the agent's connection. SESSION\n" +
			"means the compute node of its job, if the site allows logins there. The exit status is the\n" +
			"command's, or 255 if the connection failed. X11 and agent forwarding are not supported.\n" +
			"`tunctl ssh-config install` does the same for ssh, scp, rsync, git and VS Code.\n\n" +
			"  tunctl ssh narval\n" +
			"  tunctl ssh jupyter nvidia-smi",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "t", Usage: "allocate a terminal for the command"},
			&cli.BoolFlag{Name: "T", Usage: "never allocate a terminal"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return usagef("ssh takes a host or a session and, optionally, a command")
			}
			err := shell(c, t)
			if _, said := errors.AsType[silentError](err); err == nil || said {
				return err
			}
			explain(t, err)
			return silentError(exitOwn)
		},
	}
}

func shell(c *cli.Context, t *term.Terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	name, words := c.Args().First(), c.Args().Tail()
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	cl, st, err := connect(ctx, t, p)
	if err != nil {
		return err
	}
	req, err := destination(p, st, name)
	if err != nil {
		return err
	}
	conn, err := sshOver(ctx, t, cl, p, req)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	r := &remote{t: t, command: strings.Join(words, " ")}
	r.tty = term.IsTerminal(t.In) && term.IsTerminal(t.Out) && !c.Bool("T") && (len(words) == 0 || c.Bool("t"))
	return exitOf(name, r.run(ctx, conn))
}

// sshOver is an SSH client of the gateway. The key it must show is the one in our own
// state folder.
func sshOver(ctx context.Context, t *term.Terminal, cl *client.Client, p home.Paths, req api.StreamRequest) (*ssh.Client, error) {
	key, err := gateway.HostKey(p.Gateway())
	if err != nil {
		return nil, fmt.Errorf("cannot read the gateway's host key: %w", err)
	}
	req.Kind = api.StreamGateway
	stream, err := openStream(ctx, t, cl, req)
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
		return nil, fmt.Errorf("cannot connect to the agent's gateway: %w", err)
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// exitOf turns the end of a remote command into that of this program.
func exitOf(name string, err error) error {
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		if exit.Signal() != "" {
			return fmt.Errorf("%s: the command was killed by signal %s", name, exit.Signal())
		}
		return silentError(exit.ExitStatus())
	}
	if _, ok := errors.AsType[*ssh.ExitMissingError](err); ok {
		return &api.Error{Code: api.CodeUnreachable, Message: fmt.Sprintf("the connection to %s was lost", name), Err: err}
	}
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return fmt.Errorf("%s: %s", name, refused.Message)
	}
	return err
}
