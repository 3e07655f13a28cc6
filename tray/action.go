package tray

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/show"
)

// extendBy is how much more time the menu and a notification's button ask for.
const extendBy = time.Hour

// verb is what an entry of the menu, or a button of a notification, does or shows.
type verb struct {
	name    string
	attempt string // completes "Could not …"; a name may follow
	button  string // its label in a notification
	command string // of tunctl, which does the same; a name may follow
}

// The verbs of entries and buttons that do something.
var (
	verbOpen       = verb{"open", "open", "Open", "open"} // without a name: the one page that is ready
	verbCopy       = verb{"copy", "copy the address of", "", "open --print"}
	verbLog        = verb{"log", "show the log of", api.MenuLog, "logs"}
	verbUp         = verb{"up", "start", "Start again", ""}
	verbReconnect  = verb{"reconnect", "reconnect to", "", ""} // up that submits nothing
	verbUpWith     = verb{"up-with", "start", "", ""}          // with earlier choices
	verbDown       = verb{"down", "disconnect", "", ""}
	verbCancel     = verb{"cancel", "end the job of", "", ""}
	verbAnswer     = verb{name: "answer"} // raise the dialog that waits
	verbExtend     = verb{"extend", "extend", "Extend by 1 h", "extend"}
	verbKeep       = verb{"keep", "keep", "Keep", "extend --idle"}               // leave an idle job as it is, also if it would end by itself, from a notification
	verbAskEnd     = verb{"ask-end", "", "End the job…", ""}                     // ask whether an idle job is to be ended, from a notification
	verbEnd        = verb{"end", "end the job of", "End the job", ""}            // end that job, from that question
	verbTrouble    = verb{"trouble", "show the details of", api.MenuTrouble, ""} // show what went wrong with a session
	verbDetails    = verb{"details", "show the details", "Show details", ""}     // show what went wrong with an entry, from a notification
	verbLogin      = verb{"login", "log in to", api.MenuHostLogin, ""}
	verbAsk        = verb{"ask", "log in to", "Open a terminal…", ""} // log in in a terminal, from a notification
	verbLogout     = verb{"logout", "log out of", "", ""}
	verbStartAgent = verb{"start-agent", "start tunctl", "", "agent start"}
	verbSetup      = verb{"setup", "open a terminal", "Set up…", ""}
	verbDashboard  = verb{"dashboard", "open the dashboard", "", "dashboard --print"}
	verbAutostart  = verb{"autostart", "change the startup", "", ""}
	verbSettings   = verb{"settings", "open the config", "Edit config…", "config edit"}
	verbHelp       = verb{"help", "show the help", "", "help"}
	verbQuit       = verb{name: "quit"}
)

// equivalentCommand is the command that does the same as an entry; "" if none does.
func equivalentCommand(id choice) string {
	if id.verb == verbOpen && id.part != "" {
		return id.page().Command()
	}
	if id.verb.command == "" {
		return ""
	}
	return strings.TrimSpace("tunctl " + id.verb.command + " " + id.name)
}

// page is the page that an entry opens.
func (c choice) page() action.Page { return action.Page{Session: c.name, Endpoint: c.part} }

// act does what an entry says, in a goroutine, so that a slow host does not block the
// menu. It ignores a second click on an entry whose action still runs.
func (c *controller) act(ctx context.Context, id choice) {
	if id.verb == verbQuit {
		c.quit()
		return
	}
	do := c.actionFor(id)
	if do == nil || c.busy[id] {
		return
	}
	c.busy[id] = true
	c.running.Go(func() {
		r := result{id, do(ctx)}
		select {
		case c.done <- r:
		case <-ctx.Done():
		}
	})
}

// up requests a session, whose page opens once it is ready.
func (c *controller) up(req api.UpRequest) func(ctx context.Context) error {
	c.requested[req.Session] = time.Now()
	return func(ctx context.Context) error {
		_, err := c.Agent.Up(ctx, req)
		return err
	}
}

func (c *controller) down(session string, cancel bool) func(ctx context.Context) error {
	delete(c.requested, session)
	before := c.view.Status
	return func(ctx context.Context) error {
		done, err := c.Agent.Down(ctx, api.DownRequest{Session: session, Cancel: cancel})
		if lines := action.DownTexts(done, before, time.Now()); cancel && len(lines) > 1 { // the menu shows the end of one
			c.announce(notification{icon: iconReady, title: headline("", session, " is down"), body: noteBody(strings.Join(lines, "; "), session)})
		}
		return err
	}
}

func (c *controller) terminal(args ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error { return c.desk.terminal(ctx, args...) }
}

// actionFor returns the action of a verb; nil for entries that only show something, and for
// the buttons of old notifications. It runs on the goroutine of Serve, the action does not.
func (c *controller) actionFor(id choice) func(ctx context.Context) error {
	name := id.name
	s, _ := c.view.Status.Session(name)
	switch id.verb {
	case verbOpen:
		if ready := readyPages(c.view.Status); name == "" && len(ready) > 0 {
			id.name = ready[0].Name
		}
		return func(ctx context.Context) error { return c.openPage(ctx, id.page()) }
	case verbCopy:
		return func(ctx context.Context) error {
			_, err := c.desk.CopyAddress(ctx, c.Agent, id.page())
			return err
		}
	case verbLog:
		return c.terminal("logs", "-f", name)
	case verbUp, verbReconnect:
		return c.up(api.UpRequest{Session: name, Adopt: id.verb == verbReconnect})
	case verbUpWith:
		for _, with := range s.Recent {
			if with.String() == id.part {
				return c.up(api.UpRequest{Session: name, With: with})
			}
		}
	case verbDown, verbCancel:
		return c.down(name, id.verb == verbCancel)
	case verbExtend:
		return c.extend(api.ExtendRequest{Session: name, Seconds: int64(extendBy.Seconds())})
	case verbKeep:
		if !s.IdleEnd.IsZero() {
			return c.extend(api.ExtendRequest{Session: name, Idle: true})
		}
	case verbAskEnd:
		if s.MayHaveLiveJob(time.Now()) {
			c.announce(endQuestion(s))
		}
	case verbEnd:
		if s.Job != nil && s.Job.ID == id.part {
			return c.down(name, true)
		}
	case verbTrouble:
		if s.Name != "" {
			return c.showDetails(troublePage(s, time.Now()))
		}
	case verbDetails:
		return c.showDetails(c.details[name])
	case verbAnswer:
		if c.dialog != nil {
			c.dialog.hide() // and it is shown again, above other windows
		}
	case verbLogin:
		return func(ctx context.Context) error { return c.Login(ctx, name) }
	case verbAsk:
		return c.terminal("login", name)
	case verbSetup:
		return c.terminal("init")
	case verbLogout:
		return func(ctx context.Context) error { return c.Logout(ctx, name) }
	case verbStartAgent:
		return c.StartAgent
	case verbAutostart:
		if c.view.Autostart {
			return c.Autostart.Off
		}
		return c.Autostart.On
	case verbDashboard:
		return c.Dashboard
	case verbSettings:
		return c.settings
	case verbHelp:
		return c.showPage("help.html", nil)
	}
	return nil
}

// openPage opens a page. A notification has what the user needs to know besides.
func (c *controller) openPage(ctx context.Context, p action.Page) error {
	text, err := c.desk.OpenPage(ctx, c.Agent, p)
	if text != "" {
		c.announce(notification{icon: iconReady, title: headline("", p.Session, " is ready"), body: text})
	}
	return err
}

// extend requests more time, and shows the new end.
func (c *controller) extend(req api.ExtendRequest) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		text, err := action.Extend(ctx, c.Agent, req)
		if err == nil {
			c.announce(notification{icon: iconReady, title: headline("", req.Session, " was extended"), body: text})
		}
		return err
	}
}

func (c *controller) settings(ctx context.Context) error {
	if _, err := os.Stat(c.ConfigPath); errors.Is(err, fs.ErrNotExist) {
		c.announce(notification{
			title: "There is no config yet", body: "A few questions set up your first session.",
			verbs: []verb{verbSetup}, instead: "Set it up from the tray menu.",
		})
		return nil
	}
	return c.desk.edit(ctx, c.ConfigPath)
}

// reportFailure shows that an entry did not work. A page has the details.
func (c *controller) reportFailure(id choice, err error) {
	c.Log.Warn("a menu entry failed", "entry", id, "err", err)
	name := id.name
	if id.verb == verbDetails {
		name = "" // it is the id of another entry
	}
	if id.verb == verbOpen && id.part != "" {
		name += "/" + id.part
	}
	p := detailsPage{Title: "Could not " + strings.TrimSpace(id.verb.attempt+" "+name), Text: action.Cause(err)}
	n := notification{icon: iconTrouble, title: show.Shorten(p.Title, titleMost), body: noteBody(p.Text, name), name: id.String(), verbs: []verb{verbDetails}}
	if hint := api.HintOf(err); hint != "" {
		p.Hint = hint
	} else if command := equivalentCommand(id); command != "" {
		p.Hint, n.instead = "`"+command+"` does the same", "In a terminal: "+command
	}
	c.details[id.String()] = p
	c.announce(n)
}
