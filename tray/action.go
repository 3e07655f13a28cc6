package tray

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tunctl/internal/api"
)

// extendBy is how much more time a notification's button asks for.
const extendBy = time.Hour

//go:embed help.html
var helpPage []byte

// act does what an entry says, beside the loop, so that a slow host never makes
// the menu slow. A second click on an entry whose action still runs is the same
// wish, and is let go.
func (c *companion) act(ctx context.Context, id string) {
	verb, name, _ := strings.Cut(id, ":")
	if verb == verbQuit {
		c.quit()
		return
	}
	do := c.doer(verb, name)
	if do == nil {
		return
	}
	if _, running := c.busy.LoadOrStore(id, true); running {
		return
	}
	c.doing.Go(func() {
		err := do(ctx)
		c.busy.Delete(id)
		if err != nil && ctx.Err() == nil {
			c.complain(id, err)
		}
		select {
		case c.done <- id:
		case <-ctx.Done():
		}
	})
}

// doer is what does a verb; nil for entries that only tell something. It runs on
// the loop's goroutine, what it returns does not.
func (c *companion) doer(verb, name string) func(ctx context.Context) error {
	switch verb {
	case verbOpen, verbPick:
		if ready := readyPages(c.view.Status); name == "" && len(ready) > 0 {
			name = ready[0].Name
		}
		return func(ctx context.Context) error { return c.withPage(ctx, name, c.Open) }
	case verbCopy:
		return func(ctx context.Context) error { return c.withPage(ctx, name, c.Copy) }
	case verbLog:
		return func(ctx context.Context) error { return c.Terminal(ctx, "logs", "-f", name) }
	case verbUp:
		c.wished[name] = time.Now()
		return func(ctx context.Context) error { return c.Agent.Up(ctx, name) }
	case verbDown, verbCancel:
		delete(c.wished, name)
		return func(ctx context.Context) error { return c.Agent.Down(ctx, name, verb == verbCancel) }
	case verbExtend:
		return func(ctx context.Context) error { return c.extend(ctx, name) }
	case verbLogin:
		return about(name, c.Login)
	case verbLogout:
		return about(name, c.Logout)
	case verbStartAgent:
		return c.StartAgent
	case verbAutostart:
		return c.switchAutostart(c.view.Autostart)
	case verbSettings:
		return c.settings
	case verbHelp:
		return c.showHelp()
	}
	return nil
}

// about binds a host's name to what can be done about it, if anything can.
func about(name string, do func(ctx context.Context, name string) error) func(ctx context.Context) error {
	if do == nil {
		return nil
	}
	return func(ctx context.Context) error { return do(ctx, name) }
}

// withPage hands the whole address of a session's page to use.
func (c *companion) withPage(ctx context.Context, session string, use func(ctx context.Context, url string) error) error {
	url, err := c.Agent.PageURL(ctx, session)
	if err != nil {
		return err
	}
	return use(ctx, url)
}

// extend asks for more time, and tells what came of it.
func (c *companion) extend(ctx context.Context, session string) error {
	end, err := c.Agent.Extend(ctx, session, extendBy)
	if err != nil {
		return err
	}
	c.announce(news{title: session + " may run on until " + clock(end, time.Now())})
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
		return &api.Error{
			Code: api.CodeConfig, Message: "there are no settings yet", Hint: "make them in a terminal: " + c.Command + " init",
		}
	}
	return c.Edit(ctx, c.ConfigPath)
}

// showHelp writes the help page to a folder of this companion's, since a browser
// shows files and not what is inside a program.
func (c *companion) showHelp() func(ctx context.Context) error {
	if c.help == "" {
		dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "tunctl-help-")
		if err != nil {
			return func(context.Context) error { return fmt.Errorf("make a folder for the help page: %w", err) }
		}
		c.help = dir
	}
	path := filepath.Join(c.help, "help.html")
	return func(ctx context.Context) error {
		if err := os.WriteFile(path, helpPage, 0o600); err != nil {
			return fmt.Errorf("write the help page: %w", err)
		}
		return c.Show(ctx, path)
	}
}

// complain tells a person that what they clicked did not work, and where to go on.
func (c *companion) complain(id string, err error) {
	c.Log.Warn("a menu entry failed", "entry", id, "err", err)
	n := news{title: "That did not work", body: api.Redact(err.Error())}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		n.body += "\n" + e.Hint
	} else if hint := c.byHand(id); hint != "" {
		n.body += "\nIn a terminal: " + hint
	}
	c.announce(n)
}

// byHand is the command that does the same as an entry.
func (c *companion) byHand(id string) string {
	verb, name, _ := strings.Cut(id, ":")
	switch verb {
	case verbOpen, verbPick:
		return strings.TrimSpace(c.Command + " open " + name)
	case verbCopy:
		return c.Command + " open --print " + name
	case verbLog:
		return c.Command + " logs " + name
	case verbExtend:
		return c.Command + " extend " + name + " 1h"
	case verbStartAgent:
		return c.Command + " agent start"
	case verbSettings:
		return c.Command + " config edit"
	case verbHelp:
		return c.Command + " help"
	}
	return ""
}
