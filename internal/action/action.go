// Package action is what the user can do to a session, a job or a host, and the words for it: what
// is asked before, and what is said of the result. The tray, the dashboard, the screen of `tunctl
// status --watch` and the commands use it, so that the same deed has the same words everywhere. The
// agent does the work; what is known without doing anything is written by package show.
package action

import (
	"context"
	"errors"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/show"
)

// Agent is what the actions need of the agent's client.
type Agent interface {
	Page(ctx context.Context, session string) (api.OpenResponse, error)
	EndpointPage(ctx context.Context, session, endpoint string) (api.OpenResponse, error)
	Extend(ctx context.Context, session string, by time.Duration) (api.Job, error)
}

// Page is a page of a session: its main one, or another endpoint of its job.
type Page struct{ Session, Endpoint string }

// Get is the whole address of the page, with its secrets.
func (p Page) Get(ctx context.Context, a Agent) (api.OpenResponse, error) {
	if p.Endpoint == "" {
		return a.Page(ctx, p.Session)
	}
	return a.EndpointPage(ctx, p.Session, p.Endpoint)
}

// Command is the command that opens the page.
func (p Page) Command(program string) string {
	return show.OpenCommand(program, p.Session, p.Endpoint)
}

// Desktop is where pages and secrets go: to the browser and the clipboard of the user, never
// to another program.
type Desktop struct {
	Open func(ctx context.Context, url string) error
	Copy func(ctx context.Context, text string) error
}

// OwnDesktop is that of this process.
var OwnDesktop = Desktop{desktop.Open, desktop.Copy}

// OpenPage opens a page. The text is what the user needs to know besides: a password that the
// page asks for, which goes to the clipboard, or how to use what is no page to look at.
func (d Desktop) OpenPage(ctx context.Context, a Agent, p Page) (string, error) {
	page, err := p.Get(ctx, a)
	if err != nil {
		return "", err
	}
	if text := page.ConnectText(); text != "" {
		return text, nil
	}
	if err := d.Open(ctx, page.URL); err != nil {
		return "", OpenError(err, p.Command("tunctl"))
	}
	if page.Password == "" {
		return "", nil
	}
	text := "It asks for a password, which is on the clipboard: paste it."
	if d.Copy(ctx, page.Password) != nil {
		text = "It asks for a password, which `" + p.Command("tunctl") + " --print` shows."
	}
	if page.User != "" {
		text += " Log in as " + page.User + "."
	}
	return text, nil
}

// Cause is why something could not be done, for who reads that it could not: the error without
// its own "could not …" before the cause.
func Cause(err error) string {
	text := api.Redact(err.Error())
	if before, after, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(before, "could not ") && !strings.Contains(before, "\n") {
		return after
	}
	return text
}

// OpenError is an error of [desktop.Open] with what the user can do: the command opens the same
// page.
func OpenError(err error, command string) error {
	switch {
	case errors.Is(err, desktop.ErrNoBrowser), errors.Is(err, desktop.ErrUnavailable):
		return api.Errorf(api.CodeFailed, "no browser found").Because(err).
			WithHint("`%s --print` shows the full address", command)
	case errors.Is(err, desktop.ErrNotOpened):
		return api.Errorf(api.CodeFailed, "the browser started, but did not request the page").Because(err).
			WithHint("`%s` tries again; --print shows the full address", command)
	}
	return err
}

// CopyAddress copies the whole address of a page.
func (d Desktop) CopyAddress(ctx context.Context, a Agent, p Page) (string, error) {
	page, err := p.Get(ctx, a)
	if err != nil {
		return "", err
	}
	switch err := d.Copy(ctx, page.URL); {
	case errors.Is(err, desktop.ErrUnavailable):
		return "", api.Errorf(api.CodeFailed, "no clipboard program found (%v)", err).Because(err).
			WithHint("`%s --print` shows the full address", p.Command("tunctl"))
	case err != nil:
		return "", err
	}
	return copiedText(p, page), nil
}

// copiedText says that the address of a page was copied, and what it is worth.
func copiedText(p Page, page api.OpenResponse) string {
	text := "Copied the address of " + p.Session
	switch {
	case strings.Contains(page.URL, "?"): // the token, or that of noVNC's page with its password
		return text + ", token included: whoever has it can use your notebook."
	case page.Password != "":
		return text + ". The page asks for a password, which `" + p.Command("tunctl") + " --print` shows."
	}
	return text + "."
}
