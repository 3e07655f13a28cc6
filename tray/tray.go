// Package tray is tunctl's companion on the desktop: an icon that shows the state, a
// menu for everything, notifications, and dialogs for the agent's prompts.
//
// It is a client of the agent and runs in a process of its own: killing it affects no
// tunnel. menuFor derives the menu from the agent's status, tracker the notifications;
// panel is a thin adapter to the library that draws. The package decides nothing about
// sessions: a click is a request to the agent.
package tray

import (
	"context"
	"log/slog"
	"os"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

// Agent is what the tray needs of the agent's client.
type Agent interface {
	// Watch calls each with the whole status and then with every change, until the
	// agent or ctx ends.
	Watch(ctx context.Context, each func(api.Event)) error
	Up(ctx context.Context, req api.UpRequest) error
	Down(ctx context.Context, session string, cancel bool) error
	// Page is the whole address of a session's page, token included, and the password for
	// its login page.
	Page(ctx context.Context, session string) (api.OpenResponse, error)
	// EndpointPage is the same for another page of the session's job, by its name.
	EndpointPage(ctx context.Context, session, name string) (api.OpenResponse, error)
	// Extend asks for more time for a session's job, and returns its new end.
	Extend(ctx context.Context, session string, by time.Duration) (time.Time, error)
	// Answer answers a prompt.
	Answer(ctx context.Context, id string, a api.Answer) error
}

// Autostart switches start at login.
type Autostart interface {
	IsOn(ctx context.Context) (bool, error)
	On(ctx context.Context) error
	Off(ctx context.Context) error
}

// Options configure a companion. Agent is required. What else is nil has the default
// named here, or its menu entries are left out.
type Options struct {
	Agent      Agent
	Autostart  Autostart
	StartAgent func(ctx context.Context) error // also called once at the start
	Login      func(ctx context.Context, host string) error
	Logout     func(ctx context.Context, host string) error
	Dashboard  func(ctx context.Context) error // opens the page with everything
	// RestartAgent is called whenever the agent is gone. It starts one that crashed, where
	// the system does not.
	RestartAgent func(ctx context.Context) error

	Open     func(ctx context.Context, url string) error     // default: desktop.Open
	Copy     func(ctx context.Context, text string) error    // default: desktop.Copy
	Terminal func(ctx context.Context, args ...string) error // runs tunctl in a window; default: desktop.Terminal
	Edit     func(ctx context.Context, path string) error    // default: desktop.OpenFile
	Show     func(ctx context.Context, path string) error    // shows an HTML file; default: desktop.OpenHTML
	// Ask shows a dialog; default: desktop.Ask.
	Ask func(ctx context.Context, q desktop.Question) (string, error)

	ConfigPath string                 // what Settings opens
	Command    string                 // tunctl's name in messages; default: tunctl
	Instance   string                 // the home; one companion of each runs
	Notify     func(kind string) bool // which kinds of notifications are wanted, "" for those of none; default: all
	Tell       func(message string)   // shows a message to whoever started us; default: Log
	Log        *slog.Logger           // default: none
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Command == "" {
		o.Command = "tunctl"
	}
	if o.Open == nil {
		o.Open = desktop.Open
	}
	if o.Copy == nil {
		o.Copy = desktop.Copy
	}
	if o.Terminal == nil {
		o.Terminal = ownTerminal
	}
	if o.Edit == nil {
		o.Edit = desktop.OpenFile
	}
	if o.Show == nil {
		o.Show = desktop.OpenHTML
	}
	if o.Ask == nil {
		o.Ask = desktop.Ask
	}
	if o.Notify == nil {
		o.Notify = func(string) bool { return true }
	}
	if o.Tell == nil {
		o.Tell = func(message string) { o.Log.Warn("for whoever started the tray", "message", message) }
	}
}

// ownTerminal runs this very program in a window.
func ownTerminal(ctx context.Context, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return desktop.Terminal(ctx, append([]string{self}, args...))
}

// Run shows the companion until ctx ends, a person quits it, or the desktop ends.
// Call it on the main goroutine, since macOS draws nowhere else, and once in a process,
// since the library has one icon. If another companion already runs on this desktop,
// Run reports that with Tell and returns nil.
func Run(ctx context.Context, o Options) error {
	if err := Available(); err != nil {
		return err
	}
	o.fill()
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	inst, err := acquireInstance(ctx, o.Instance)
	if err != nil {
		return err
	}
	if inst == nil {
		o.Tell("The tray is already running on this desktop.")
		return nil
	}
	defer inst.release()

	notifier, err := desktop.NewNotifier(ctx)
	if err != nil {
		o.Log.Info("no notifications on this desktop", "err", err)
	} else {
		defer notifier.Close()
	}
	p := newPanel(o.Log)
	c := newCompanion(o, p, quit)
	if notifier != nil {
		c.notifier = notifier
	}
	if o.StartAgent != nil {
		c.acts <- verbStartAgent
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Serve(ctx)
	}()
	err = p.Serve(ctx, inst, o.Tell)
	quit()
	<-done
	return err
}
