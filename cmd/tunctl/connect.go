package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

func connectCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "connect",
		Usage:     "connect stdin/stdout to ADDR:PORT as seen from a host or a job",
		ArgsUsage: "HOST|SESSION ADDR:PORT | --gateway HOST|SESSION",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "gateway", Usage: "speak SSH to the gateway to HOST, SESSION or one of their nodes"}},
		Action:    invokeInterruptible(t, connectStdio),
	}
}

func connectStdio(ctx context.Context, inv *invocation) error {
	if err := checkConnect(inv.Context); err != nil {
		return err
	}
	name := inv.Args().First()
	if name == "%n" {
		name = inv.Args().Get(1)
	}
	req, err := inv.destination(ctx, name)
	if err != nil {
		return err
	}
	req.Kind, req.Address = api.StreamDial, inv.Args().Get(1)
	if inv.Bool("gateway") {
		req.Kind = api.StreamGateway
	}
	prompts, done := inv.ForPrompts()
	defer done()
	stream, err := openStream(ctx, prompts, inv.client, req)
	if err != nil {
		return inv.withNearSession(name, err)
	}
	defer func() { _ = stream.Close() }()
	err = joinStdio(ctx, inv.Terminal, stream)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return lost(name, err)
	}
	return err
}

// checkConnect checks the arguments before anything is started for them.
func checkConnect(c *cli.Context) error {
	const example = "as in `tunctl connect narval db.int:5432`"
	switch n := c.NArg(); {
	case c.Bool("gateway") && (n == 1 || n == 2): // see quotedName
		return nil
	case c.Bool("gateway"):
		return usagef("connect --gateway takes one host or session")
	case n != 2:
		return usagef("connect takes a host and an address, %s", example)
	}
	address := c.Args().Get(1)
	if isAddress(address) || strings.ContainsRune(address, '/') { // a socket
		return nil
	}
	e := api.Errorf(api.CodeUsage, "%q is not an address with a port: connect takes a host and ADDR:PORT, %s", address, example)
	if !strings.ContainsRune(address, ':') {
		e.Hint = fmt.Sprintf("for a shell on that machine: `tunctl ssh %s.%s`", address, c.Args().First())
	}
	return e
}

// joinStdio copies both ways until the far side closes the stream.
func joinStdio(ctx context.Context, t *term.Terminal, s *client.Stream) error {
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	go func() { // a read of standard input cannot be cancelled: it ends with the program
		_, _ = io.Copy(s.Conn, t.In)
		_ = s.CloseWrite()
	}()
	_, err := io.Copy(t.Out, s)
	return err
}
