package main

import (
	"context"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

func connectCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "connect",
		Usage:     "join standard input and output to an address beyond a host",
		ArgsUsage: "HOST ADDR:PORT | --gateway HOST",
		Description: "What you type goes there, what it sends is printed; ADDR is as the host sees it, and a\n" +
			"path is a socket there. It serves as a ProxyCommand:\n\n" +
			"    ssh -o ProxyCommand='tunctl connect narval %h:%p' nc10214\n\n" +
			"With --gateway it speaks SSH, over the login the agent already has; see `tunctl ssh-config`.",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "gateway", Usage: "speak SSH to the agent's gateway to HOST, or to NODE.HOST"}},
		Action: func(c *cli.Context) error { return connectStdio(c, t) },
	}
}

func connectStdio(c *cli.Context, t *terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	asker, done := t.asking()
	defer done()
	cl, st, err := asker.connect(ctx, p)
	if err != nil {
		return err
	}
	var req api.StreamRequest
	switch {
	case c.Bool("gateway") && c.NArg() == 1:
		req, err = destination(p, st, c.Args().First())
		req.Kind = api.StreamGateway
	case !c.Bool("gateway") && c.NArg() == 2:
		req = api.StreamRequest{Kind: api.StreamDial, Host: c.Args().First(), Address: c.Args().Get(1)}
	default:
		err = usagef("connect takes a host and an address, as in `tunctl connect narval db.int:5432`, or --gateway and a host")
	}
	if err != nil {
		return err
	}
	stream, err := asker.stream(ctx, cl, req)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	return joinStdio(ctx, t, stream)
}

// joinStdio carries both directions until the far side has said all it has to say.
func joinStdio(ctx context.Context, t *terminal, s *client.Stream) error {
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	go func() { // a read of standard input cannot be cancelled: it ends with the program
		_, _ = io.Copy(s.Conn, t.in)
		_ = s.CloseWrite()
	}()
	_, err := io.Copy(t.out, s)
	if ctx.Err() != nil {
		return silentError(exitInterrupted)
	}
	return err
}

// asking is the terminal for a command whose standard input is not for answers: as ssh
// does, it asks at the terminal that the program was started from, if any.
func (t *terminal) asking() (*terminal, func()) {
	if t.asks || !isTerminal(t.err) {
		return t, func() {}
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return t, func() {}
	}
	return newTerminal(tty, t.out, t.err), func() { _ = tty.Close() }
}
