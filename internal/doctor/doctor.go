// Package doctor has the checks of `tunctl doctor`: everything that can fail between this
// machine and a notebook, in order, each with a result and a fix. It also removes secrets
// and names from the bundle for a bug report.
//
// Its Environment provides what it checks, so that it knows neither SSH nor schedulers;
// the agent checks what needs a connection over the existing one. Doctor never logs in,
// and never prompts.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tunctl/internal/api"
)

// checkTimeout bounds one check.
const checkTimeout = 20 * time.Second

// PreflightResult is what a host's port shows without a login; see tunnel.Preflight.
type PreflightResult struct {
	Address, Greeting, HostKey string
}

// Environment provides what doctor checks.
type Environment struct {
	// Program is this program's file, Search the folders of the PATH.
	Program string
	Search  []string
	Version string
	// Config reads the config and returns a summary with its path.
	Config func() (summary string, err error)
	// State is the folder that the agent writes to.
	State string
	// StateProblem is why the state file could not be read in full, and the file; nil if it could.
	StateProblem func() (file string, why error)
	Status       func(ctx context.Context) (api.Status, error)
	// Resolve reads the ssh settings of a host, Preflight connects to its port, and Lookup
	// resolves a name.
	Resolve   func(ctx context.Context, host string) (api.Host, error)
	Preflight func(ctx context.Context, host string) (PreflightResult, error)
	Lookup    func(ctx context.Context, name string) ([]string, error)
	// Names are the known hosts and sessions, for suggestions.
	Names []string
	// AgentSocket is where an ssh agent should answer; empty for none.
	AgentSocket string
	// Advice is what the host's site requires before SSH works, if anything. It is used
	// if a host cannot be reached.
	Advice func(ctx context.Context, host string) string
	// Remote examines a host, and a session if it is named, over its connection.
	Remote func(ctx context.Context, req api.CheckRequest) ([]api.Check, error)
}

// Subject is a host to examine, with a session on it or without.
type Subject struct {
	Host, Session string
}

// Examine checks this machine and then each subject, and reports each result at once.
func Examine(ctx context.Context, env Environment, subjects []Subject, report func(api.Check)) {
	e := &examination{Environment: env, report: report}
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
	Environment
	about  string
	report func(api.Check)
	status api.Status // the agent's; empty without one
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

// failed reports an error with its hint, or else with fix.
func (e *examination) failed(name string, err error, fix string) {
	e.bad(name, err.Error(), cmp.Or(api.HintOf(err), fix))
}

// session checks what the agent knows of a session, and what it finds on the host.
func (e *examination) session(ctx context.Context, s Subject) {
	now, known := e.status.Session(s.Session)
	text, report := "the session is "+string(now.State), e.unknown
	switch now.State {
	case api.SessionFailed, api.SessionEnded:
		text, report = "the session has "+string(now.State), e.bad
	case api.SessionNeedsLogin:
		text, report = "the session waits for a login", e.bad
	}
	if now.Cause != "" {
		text += ": " + now.Cause
	}
	switch {
	case !known || now.State == api.SessionDown:
		e.ok("session", "down: `tunctl up %s` starts it", s.Session)
	case now.State == api.SessionReady && now.Local != "":
		e.ok("session", "ready at %s", now.Local)
	case now.State == api.SessionReady: // it has no page
		e.ok("session", "ready")
	default:
		report("session", text, now.Hint)
	}
	if e.agentHost(s.Host).State == api.HostUp {
		e.remote(ctx, api.CheckRequest{Host: s.Host, Session: s.Session})
	}
}

// remote reports what the agent finds over the host's connection.
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
