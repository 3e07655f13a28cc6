package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
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
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "which", Usage: "open another `ENDPOINT` of the job, such as dask"},
			&cli.BoolFlag{Name: "print", Usage: "print the full address, with its token, and open nothing"},
			&cli.BoolFlag{Name: "client", Usage: "print an address for VS Code and others, which stays"},
			&cli.BoolFlag{Name: "new", Usage: "with --client: replace the token in that address"},
		},
		Action: invokeInterruptible(t, atMost(1, "one session", openSession)),
	}
}

func openSession(ctx context.Context, inv *invocation) error {
	which := inv.String("which")
	if inv.Bool("client") {
		return clientPage(ctx, inv)
	}
	if inv.Bool("new") {
		return usagef("--new is for --client: the token of a job cannot be replaced")
	}
	tests := []func(api.Session) bool{hasPage, mayHavePage}
	if which != "" {
		tests = slices.Insert(tests, 0, func(s api.Session) bool {
			return slices.ContainsFunc(s.Endpoints, func(e api.NamedEndpoint) bool { return e.Name == which })
		})
	}
	name, err := inv.chooseSession(ctx, "Open the page of which session?", "no session has a page to open", tests...)
	if err != nil {
		return err
	}
	if !inv.Bool("print") {
		opened, err := openPage(ctx, inv.Terminal, inv.client, action.Page{Session: name, Endpoint: which})
		if opened != "" {
			inv.Say("%s opened %s: %s", inv.Paint(term.Green, "✓"), cmp.Or(which, name), opened)
		}
		return err
	}
	page, err := action.Page{Session: name, Endpoint: which}.Get(ctx, inv.client)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(inv.Out, page.URL)
	if page.Password != "" {
		inv.Say("%s", passwordText(page))
	}
	return err
}

// clientPage prints the address of a session's page for other programs.
func clientPage(ctx context.Context, inv *invocation) error {
	if inv.String("which") != "" {
		return usagef("--client is for the main page of a session")
	}
	name, err := inv.chooseSession(ctx, "The address of which session?", "no session has a page", hasPage, mayHavePage)
	if err != nil {
		return err
	}
	page, err := inv.client.ClientPage(ctx, name, inv.Bool("new"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(inv.Out, page.URL)
	inv.Say("this address works in every job of %s, on this computer, while the session is up; whoever has it can use your notebook", name)
	inv.Say("`tunctl open %s --client --new` replaces its token", name)
	return err
}

// openPage opens a page, and returns its address without the token. If it cannot, it says
// how to, and returns "". What the user has to type into
// the page is printed.
func openPage(ctx context.Context, t *term.Terminal, cl *client.Client, p action.Page) (opened string, err error) {
	page, err := p.Get(ctx, cl)
	if err != nil {
		return "", err
	}
	if text := page.ConnectText(); text != "" {
		t.Say("%s", text)
		return "", nil
	}
	defer func() {
		switch {
		case page.Password == "" || err != nil:
		case t.Interactive:
			t.Say("%s", passwordText(page))
		default: // what is written here may be kept in a file
			t.Say("the page asks for a password; `%s` shows it", p.Command()+" --print")
		}
	}()
	if err := desktop.Open(ctx, page.URL); err != nil {
		return "", notOpened(ctx, t, p.Command(), page.URL, err)
	}
	return withoutToken(page.URL), nil
}

// passwordText is what the user has to type into a page.
func passwordText(page api.OpenResponse) string {
	if page.User == "" {
		return "log in there with the password " + page.Password
	}
	return fmt.Sprintf("log in there as %s with the password %s", page.User, page.Password)
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
		return exitError(exitInterrupted)
	case errors.Is(err, desktop.ErrNoBrowser): // it is also one of these:
		t.Say("no browser found; `%s` shows the full address", command+" --print")
		return nil
	case errors.Is(err, desktop.ErrUnavailable):
		t.Say("no viewer for %s found; open that address with yours", withoutToken(page))
		return nil
	}
	return action.OpenError(err, command)
}
