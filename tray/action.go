package tray

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"tunctl/internal/api"
)

// extendBy is how much more time a notification's button asks for.
const extendBy = time.Hour

// act does what an entry says, in a goroutine, so that a slow host does not block the
// menu. It ignores a second click on an entry whose action still runs.
func (c *companion) act(ctx context.Context, id string) {
	verb, name, _ := strings.Cut(strings.TrimPrefix(id, atTop), ":")
	if verb == verbQuit {
		c.quit()
		return
	}
	do := c.actionFor(verb, name)
	if do == nil {
		return
	}
	if _, running := c.busy.LoadOrStore(id, true); running {
		return
	}
	c.running.Go(func() {
		err := do(ctx)
		c.busy.Delete(id)
		if err != nil && ctx.Err() == nil {
			c.reportFailure(id, err)
		}
		select {
		case c.done <- id:
		case <-ctx.Done():
		}
	})
}

// up requests a session, whose page opens once it is ready.
func (c *companion) up(req api.UpRequest) func(ctx context.Context) error {
	c.requested[req.Session] = time.Now()
	return func(ctx context.Context) error { return c.Agent.Up(ctx, req) }
}

// actionFor returns the action of a verb; nil for entries that only show something. It
// runs on the goroutine of Serve, the action does not.
func (c *companion) actionFor(verb, name string) func(ctx context.Context) error {
	switch verb {
	case verbOpen, verbPick:
		if ready := readyPages(c.view.Status); name == "" && len(ready) > 0 {
			name = ready[0].Name
		}
		return func(ctx context.Context) error { return c.openSession(ctx, name) }
	case verbEndpoint:
		return func(ctx context.Context) error { return c.openEndpoint(ctx, name) }
	case verbCopy:
		return func(ctx context.Context) error { return c.copyAddress(ctx, name) }
	case verbLog:
		return func(ctx context.Context) error { return c.Terminal(ctx, "logs", "-f", name) }
	case verbUp, verbReconnect:
		return c.up(api.UpRequest{Session: name, Adopt: verb == verbReconnect})
	case verbUpWith:
		session, with := splitChoices(name)
		return c.up(api.UpRequest{Session: session, With: with})
	case verbDown, verbCancel:
		delete(c.requested, name)
		return func(ctx context.Context) error { return c.Agent.Down(ctx, name, verb == verbCancel) }
	case verbExtend:
		return func(ctx context.Context) error { return c.extend(ctx, name) }
	case verbAskEnd:
		s, found := c.view.Status.Session(name)
		if !found || !jobAlive(s, time.Now()) { // the button of an old notification
			return nil
		}
		c.announce(endQuestion(s))
	case verbEnd:
		session, job := splitEndpoint(name) // nor has the id of a job a slash
		if s, found := c.view.Status.Session(session); !found || s.Job == nil || s.Job.ID != job {
			return nil // the button of an old notification
		}
		return c.actionFor(verbCancel, session)
	case verbTrouble:
		s, found := c.view.Status.Session(name)
		if !found { // the button of an old notification
			return nil
		}
		return c.showPage(troublePage(s, time.Now()))
	case verbDetails:
		p, _ := c.details.Load(name)
		failed, _ := p.(detailsPage)
		return c.showPage(failed)
	case verbLogin:
		return forHost(name, c.Login)
	case verbAsk:
		return func(ctx context.Context) error { return c.Terminal(ctx, "login", name) }
	case verbSetup:
		return func(ctx context.Context) error { return c.Terminal(ctx, "init") }
	case verbLogout:
		return forHost(name, c.Logout)
	case verbStartAgent:
		return c.StartAgent
	case verbAutostart:
		return c.switchAutostart(c.view.Autostart)
	case verbDashboard:
		return c.Dashboard
	case verbSettings:
		return c.settings
	case verbHelp:
		return c.showFile("help.html", helpPage)
	}
	return nil
}

// forHost binds an action on hosts, if there is one, to a host.
func forHost(name string, do func(ctx context.Context, name string) error) func(ctx context.Context) error {
	if do == nil {
		return nil
	}
	return func(ctx context.Context) error { return do(ctx, name) }
}

// openSession opens a session's page.
func (c *companion) openSession(ctx context.Context, session string) error {
	page, err := c.Agent.Page(ctx, session)
	if err != nil {
		return err
	}
	return c.openPage(ctx, verbOpen, session, page)
}

// openEndpoint opens another page of a session's job, SESSION/NAME.
func (c *companion) openEndpoint(ctx context.Context, id string) error {
	session, name := splitEndpoint(id)
	page, err := c.Agent.EndpointPage(ctx, session, name)
	if err != nil {
		return err
	}
	return c.openPage(ctx, verbEndpoint, id, page)
}

// openPage opens the page of an entry. A password that it asks for goes to the clipboard; for
// what is no page, a notification says how to use it.
func (c *companion) openPage(ctx context.Context, verb, name string, page api.OpenResponse) error {
	session := name
	if verb == verbEndpoint {
		session, _ = splitEndpoint(name)
	}
	if text := page.ConnectText(); text != "" {
		c.announce(news{title: headline("", session, " is ready"), body: text})
		return nil
	}
	if err := c.Open(ctx, page.URL); err != nil || page.Password == "" {
		return err
	}
	where := "It is on the clipboard: paste it."
	if err := c.Copy(ctx, page.Password); err != nil {
		c.Log.Warn("cannot copy a page's password", "session", session, "err", err)
		where = "It could not be copied: run `" + c.equivalentCommand(verb, name) + " --print`, which shows it."
	}
	if page.User != "" {
		where += " Log in as " + page.User + "."
	}
	c.announce(news{title: headline("", session, " asks for a password"), body: where})
	return nil
}

// copyAddress copies the whole address of a session's page.
func (c *companion) copyAddress(ctx context.Context, session string) error {
	page, err := c.Agent.Page(ctx, session)
	if err != nil {
		return err
	}
	return c.Copy(ctx, page.URL)
}

// splitEndpoint splits SESSION/NAME. The name of an endpoint has no slash.
func splitEndpoint(page string) (session, name string) {
	i := strings.LastIndexByte(page, '/')
	return page[:max(i, 0)], page[i+1:]
}

// extend requests more time, and shows the new end.
func (c *companion) extend(ctx context.Context, session string) error {
	end, err := c.Agent.Extend(ctx, session, extendBy)
	if err != nil {
		return err
	}
	c.announce(news{title: headline("", session, " was extended"), body: "It runs until " + clock(end, time.Now()) + " now."})
	return nil
}

func (c *companion) switchAutostart(on bool) func(ctx context.Context) error {
	switch {
	case c.Autostart == nil:
		return nil
	case on:
		return c.Autostart.Off
	}
	return c.Autostart.On
}

func (c *companion) settings(ctx context.Context) error {
	if _, err := os.Stat(c.ConfigPath); errors.Is(err, fs.ErrNotExist) {
		c.announce(news{
			title: "There is no config yet", body: "A few questions set up your first session.",
			verbs: []string{verbSetup}, instead: "Set it up from the tray menu.",
		})
		return nil
	}
	return c.Edit(ctx, c.ConfigPath)
}

// attempts complete "Could not …" for each verb; a name may follow.
var attempts = map[string]string{
	verbOpen: "open", verbPick: "open", verbEndpoint: "open", verbCopy: "copy the address of", verbLog: "show the log of", verbUp: "start", verbUpWith: "start", verbReconnect: "reconnect to",
	verbDown: "disconnect", verbCancel: "end the job of", verbEnd: "end the job of", verbExtend: "extend", verbLogin: "log in to", verbAsk: "log in to",
	verbLogout: "log out of", verbStartAgent: "start tunctl", verbSetup: "open a terminal", verbAutostart: "change the startup",
	verbDashboard: "open the dashboard", verbSettings: "open the config", verbHelp: "show the help", verbTrouble: "show the details of",
	verbDetails: "show the details",
}

// reportFailure shows that an entry did not work. A page has the details.
func (c *companion) reportFailure(id string, err error) {
	c.Log.Warn("a menu entry failed", "entry", id, "err", err)
	verb, name, _ := strings.Cut(strings.TrimPrefix(id, atTop), ":")
	switch verb {
	case verbDetails:
		name = "" // it is the id of another entry
	case verbUpWith:
		name, _ = splitChoices(name)
	case verbEnd:
		name, _ = splitEndpoint(name)
	}
	p := detailsPage{Title: "Could not " + strings.TrimSpace(attempts[verb]+" "+name), Text: api.Redact(err.Error())}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		p.Hint = e.Hint
	} else if command := c.equivalentCommand(verb, name); command != "" {
		p.Hint = "`" + command + "` does the same in a terminal"
	}
	c.details.Store(id, p)
	c.announce(news{title: shorten(p.Title, titleMost), body: noteBody(p.Text, name), name: id, verbs: []string{verbDetails}})
}

// equivalentCommand is the command that does the same as an entry.
func (c *companion) equivalentCommand(verb, name string) string {
	switch verb {
	case verbOpen, verbPick:
		return strings.TrimSpace(c.Command + " open " + name)
	case verbEndpoint:
		session, which := splitEndpoint(name)
		return c.Command + " open " + session + " --which " + which
	case verbCopy:
		return c.Command + " open --print " + name
	case verbLog:
		return c.Command + " logs " + name
	case verbExtend:
		return c.Command + " extend " + name + " 1h"
	case verbStartAgent:
		return c.Command + " agent start"
	case verbDashboard:
		return c.Command + " dashboard --print"
	case verbSettings:
		return c.Command + " config edit"
	case verbHelp:
		return c.Command + " help"
	}
	return ""
}
