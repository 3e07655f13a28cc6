// Package tray is tunctl on the desktop: an icon that shows the state, a
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

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

// Agent is what the tray needs of the agent's client.
type Agent interface {
	action.Agent
	// Watch calls each with the whole status and then with every change, until the
	// agent or ctx ends.
	Watch(ctx context.Context, each func(api.Event)) error
	Up(ctx context.Context, req api.UpRequest) (api.UpResponse, error)
	Down(ctx context.Context, req api.DownRequest) (api.DownResponse, error)
	Answer(ctx context.Context, id string, a api.Answer) error
}

// Autostart switches start at login.
type Autostart interface {
	IsOn(ctx context.Context) (bool, error)
	On(ctx context.Context) error
	Off(ctx context.Context) error
}

// Options configure a tray.
type Options struct {
	Agent      Agent
	Autostart  Autostart                       // nil: the menu has no entry for it
	StartAgent func(ctx context.Context) error // also called once at the start
	Login      func(ctx context.Context, host string) error
	Logout     func(ctx context.Context, host string) error
	Dashboard  func(ctx context.Context) error // opens the page with everything
	// RestartAgent is called whenever the agent is gone. It starts one that crashed, where
	// the system does not; nil: nothing does.
	RestartAgent func(ctx context.Context) error

	ConfigPath string                 // what Settings opens
	Instance   string                 // the home; one tray of each runs
	Notify     func(kind string) bool // which kinds of notifications are wanted, "" for those of none
	Tell       func(message string)   // shows a message to whoever started us
	Log        *slog.Logger

	desk *desk // nil: the user's own
}

// desk is what the tray has the desktop do.
type desk struct {
	action.Desktop
	terminal func(ctx context.Context, args ...string) error // runs tunctl in a window
	edit     func(ctx context.Context, path string) error
	show     func(ctx context.Context, path string) error // an HTML file
	ask      func(ctx context.Context, q desktop.Question) (string, error)
}

var ownDesk = desk{action.OwnDesktop, desktop.Terminal, desktop.OpenFile, desktop.OpenHTML, desktop.Ask}
