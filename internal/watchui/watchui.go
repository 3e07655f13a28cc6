// Package watchui is the interactive screen of `tunctl status --watch`: lists of sessions,
// jobs, use and hosts, a job's log, and keys that act on the chosen row. It owns the screen
// and the keys, and reads what it shows from the agent, which does what the keys ask for. A login is given to
// it: its questions need the terminal.
package watchui

import (
	"context"
	"errors"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

// viewKind is one of the screen's pages, in the order of the keys 1 to 5.
type viewKind int

// The views.
const (
	sessionsView viewKind = iota
	jobsView
	useView
	hostsView
	logView
)

// Options are what the screen shows and does.
type Options struct {
	Status  api.Status // as it is at the start
	Session string     // show this one only, with its host and jobs; "": all
	Waiter  string     // the name by which this command waits; see client.Watch

	// Login logs in to a host, while the terminal is as it was before Run.
	Login func(ctx context.Context, host string) error
}

// ErrInterrupted says that Ctrl-C or a signal ended the screen.
var ErrInterrupted = errors.New("interrupted")

// framesPerSecond is how often bubbletea looks for something new to draw: it bounds how
// late the first picture is. Nothing is written unless the picture has changed.
const framesPerSecond = 30

// Run shows the screen until q, also while the agent is restarted. Ctrl-C or the end of ctx ends it
// with ErrInterrupted. However it ends, the terminal is as it was.
func Run(ctx context.Context, t *term.Terminal, cl *client.Client, o Options) error {
	f := &feed{client: cl, options: o}
	m := newModel(o, f, term.LayoutFor(t.Out).Colours, time.Now())
	if width, height, err := term.Size(t.Out); err == nil { // the first picture has the right size
		m.width, m.height = width, height
	}
	last, err := f.run(ctx, t, m)
	if err != nil {
		return err
	}
	m, _ = last.(model)
	return m.end
}
