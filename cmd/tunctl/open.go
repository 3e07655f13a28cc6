package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/term"
)

func openCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "open",
		Usage:     "open a session's page in the browser",
		ArgsUsage: "[SESSION]",
		Description: "Without SESSION: the session that is up. The browser gets a link that works once, so that the\n" +
			"page's token is in no process list. --print shows the full address, token included: anyone who\n" +
			"has it can use your notebook.\n\n" +
			"  tunctl open\n" +
			"  tunctl open jupyter --print",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "print", Usage: "print the full address, token included, instead of opening it"},
		},
		Action: action(t, openSession),
	}
}

func openSession(ctx context.Context, inv *invocation) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	name, err := inv.chooseSession(ctx, "no session has a page to open", hasPage, mayHavePage)
	if err != nil {
		return err
	}
	if !inv.Bool("print") {
		opened, err := openPage(ctx, inv.Terminal, inv.client, name, "tunctl")
		if opened != "" {
			inv.Say("%s opened %s: %s", inv.Paint(term.Green, "✓"), name, opened)
		}
		return err
	}
	url, err := inv.client.PageURL(ctx, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(inv.Out, url)
	return err
}

// openPage opens a session's page, and returns its address without the token. If it cannot, it
// says how to, with program in another terminal, and returns "".
func openPage(ctx context.Context, t *term.Terminal, cl *client.Client, name, program string) (opened string, err error) {
	page, err := cl.PageURL(ctx, name)
	if err != nil {
		return "", err
	}
	if err := desktop.Open(ctx, page, desktop.OpenOptions{}); err != nil {
		return "", notOpened(ctx, t, program+" open "+name, page, err)
	}
	return withoutToken(page), nil
}

// withoutToken is an address without its token.
func withoutToken(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return api.Redact(address)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// notOpened says how to get a page that did not open.
func notOpened(ctx context.Context, t *term.Terminal, command, page string, err error) error {
	switch {
	case ctx.Err() != nil:
		return silentError(exitInterrupted)
	case errors.Is(err, desktop.ErrUnavailable):
		t.Say("no viewer for %s found; open that address with yours", withoutToken(page))
		return nil
	case errors.Is(err, desktop.ErrNoBrowser):
		t.Say("no browser found; `%s` shows the full address, token included", command+" --print")
		return nil
	case errors.Is(err, desktop.ErrNotOpened):
		return &api.Error{
			Code: api.CodeFailed, Message: "the browser started, but did not request the page", Err: err,
			Hint: fmt.Sprintf("`%s` tries again; --print shows the full address, token included", command),
		}
	}
	return err
}
