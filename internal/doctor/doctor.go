// Package doctor holds the checks behind `tunctl doctor`: everything that can fail
// between this machine and a notebook, in order, with what was found in a line and how
// to fix it. What is packed for a bug report is cleaned of secrets and names here too.
//
// It only judges. What it looks at comes in through a World, so that it knows neither
// SSH nor schedulers; what needs a connection is examined by the agent over the one
// it has. Doctor never logs in, and never asks a person anything.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
)

// checkTime bounds one look at the world.
const checkTime = 20 * time.Second

// PreflightResult is what a host's port shows without a login; see tunnel.Preflight.
type PreflightResult struct {
	Address, Greeting, HostKey string
}

// World is how doctor looks at what is around it.
type World struct {
	// Program is this program's file, Search the folders of the PATH.
	Program string
	Search  []string
	Version string
	// Config reads the config and sums it up, with its path.
	Config func() (summary string, err error)
	// State is the folder that the agent writes to.
	State  string
	Status func(ctx context.Context) (api.Status, error)
	// Resolve reads the ssh settings of a host, Preflight sees how its port answers, and
	// Lookup asks for the addresses of a name.
	Resolve   func(ctx context.Context, host string) (api.Host, error)
	Preflight func(ctx context.Context, host string) (PreflightResult, error)
	Lookup    func(ctx context.Context, name string) ([]string, error)
	// AgentSocket is where an ssh agent should answer; empty for none.
	AgentSocket string
	// Advice is what the host's site requires before SSH works, if anything. It is asked
	// for where a host cannot be reached.
	Advice func(ctx context.Context, host string) string
	// Remote examines a host, and a session if it is named, over its connection.
	Remote func(ctx context.Context, req api.CheckRequest) ([]api.Check, error)
}

// Subject is a host to examine, with a session on it or without.
type Subject struct {
	Host, Session string
}

// Examine looks at this machine and then at each subject, and reports what it finds
// as it goes.
func Examine(ctx context.Context, w World, subjects []Subject, report func(api.Check)) {
	e := &examination{World: w, report: report}
	e.machine(ctx)
	looked := map[string]bool{}
	for _, s := range subjects {
		if ctx.Err() != nil {
			return
		}
		if !looked[s.Host] {
			looked[s.Host] = true
			e.about = s.Host
			e.host(ctx, s.Host)
		}
		if s.Session != "" {
			e.about = s.Session
			e.session(ctx, s)
		}
	}
}

// examination is one run of the checks.
type examination struct {
	World
	about  string
	report func(api.Check)
	status api.Status // the agent's; empty where there is none
}

func (e *examination) ok(name, format string, args ...any) {
	e.report(api.Check{About: e.about, Name: name, Result: api.CheckOK, Text: fmt.Sprintf(format, args...)})
}

func (e *examination) bad(name, text, fix string) {
	e.report(api.Check{About: e.about, Name: name, Result: api.CheckBad, Text: text, Fix: fix})
}

func (e *examination) unknown(name, text, fix string) {
	e.report(api.Check{About: e.about, Name: name, Result: api.CheckUnknown, Text: text, Fix: fix})
}

// failed reports an error with its own hint, or else ours.
func (e *examination) failed(name string, err error, fix string) {
	if x, ok := errors.AsType[*api.Error](err); ok && x.Hint != "" {
		fix = x.Hint
	}
	e.bad(name, err.Error(), fix)
}

// stateText is how a session is that is neither ready nor down, and why.
func stateText(s api.Session) string {
	text := "the session is " + string(s.State)
	switch s.State {
	case api.SessionFailed, api.SessionEnded:
		text = "the session has " + string(s.State)
	case api.SessionNeedsLogin:
		text = "the session waits for a login"
	}
	if s.Cause != "" {
		text += ": " + s.Cause
	}
	return text
}

// session examines what the agent knows of a session and what it finds on the host.
func (e *examination) session(ctx context.Context, s Subject) {
	now, known := e.status.Session(s.Session)
	switch {
	case !known || now.State == api.SessionDown:
		e.unknown("session", "the session is down", fmt.Sprintf("`tunctl up %s` starts it", s.Session))
	case now.State == api.SessionReady:
		e.ok("session", "ready at %s", now.Local)
	case now.State == api.SessionFailed || now.State == api.SessionEnded || now.State == api.SessionNeedsLogin:
		e.bad("session", stateText(now), now.Hint)
	default:
		e.unknown("session", stateText(now), now.Hint)
	}
	if e.isUp(s.Host) {
		e.remote(ctx, api.CheckRequest{Host: s.Host, Session: s.Session})
	}
}

// remote passes on what the agent finds over the host's connection.
func (e *examination) remote(ctx context.Context, req api.CheckRequest) {
	checks, err := e.Remote(ctx, req)
	if err != nil {
		e.failed("connection", err, "`tunctl agent log` shows more")
		return
	}
	for _, c := range checks {
		c.About = e.about
		e.report(c)
	}
}

func (e *examination) isUp(host string) bool {
	for _, h := range e.status.Hosts {
		if h.Alias == host {
			return h.State == api.HostUp
		}
	}
	return false
}
