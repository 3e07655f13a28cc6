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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	Program string // this program's file
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

// Examine checks this machine and then each subject, which may depend on the agent's status, and reports
// each result at once.
func Examine(ctx context.Context, env Environment, subjects func(api.Status) []Subject, report func(api.Check)) {
	e := &examination{Environment: env, report: report}
	e.machine(ctx)
	looked := map[string]bool{}
	for _, s := range subjects(e.status) {
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
	for _, f := range now.Forwards {
		if f.Error != "" && now.State == api.SessionReady {
			e.bad("forward", f.Listen+": "+f.Error, "start the server there, or correct the forward")
		}
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

// machine checks this machine.
func (e *examination) machine(ctx context.Context) {
	e.program()
	e.config()
	e.folder()
	e.agent(ctx)
}

// program finds another tunctl that a shell would start instead of this one: there is an
// older program of that name, which creates TUN/TAP devices.
func (e *examination) program() {
	own, err := os.Stat(e.Program)
	if err != nil {
		e.bad("program", fmt.Sprintf("cannot read tunctl's own program file: %v", err), "install tunctl again")
		return
	}
	first, _ := exec.LookPath("tunctl")
	info, err := os.Stat(first)
	switch {
	case err != nil:
		e.unknown("program", fmt.Sprintf("tunctl %s is not on the PATH", e.Version), "add "+filepath.Dir(e.Program)+" to the PATH")
	case os.SameFile(info, own):
		e.ok("program", "tunctl %s, %s", e.Version, first)
	default:
		e.bad("program", fmt.Sprintf("another program called tunctl comes first on the PATH: %s", first),
			fmt.Sprintf("put %s before %s in the PATH, or call %s", filepath.Dir(e.Program), filepath.Dir(first), e.Program))
	}
}

func (e *examination) config() {
	summary, err := e.Config()
	if err != nil {
		e.failed("config", err, "`tunctl config edit` opens the file, `tunctl config check` checks it again")
		return
	}
	e.ok("config", "%s", summary)
}

// folder checks that the agent can save its state.
func (e *examination) folder() {
	fix := "make the folder writable, or free disk space; TUNCTL_HOME moves all of tunctl's files"
	if err := os.MkdirAll(e.State, 0o700); err != nil {
		e.bad("state", fmt.Sprintf("cannot create the state directory: %v", err), fix)
		return
	}
	f, err := os.CreateTemp(e.State, ".doctor-*")
	if err == nil {
		_, err = f.Write(make([]byte, 64<<10)) // a full disk still takes an empty file
		err = errors.Join(err, f.Close())
		_ = os.Remove(f.Name())
	}
	if err != nil {
		if x, ok := errors.AsType[*fs.PathError](err); ok {
			err = x.Err // without the name of the temporary file
		}
		e.bad("state", fmt.Sprintf("cannot write to the state directory %s: %v", e.State, err), fix)
		return
	}
	if file, why := e.StateProblem(); why != nil {
		e.bad("state", fmt.Sprintf("%v; the agent uses its last good copy, or what it could read, and looks for your jobs on each host once it is connected", why),
			fmt.Sprintf("`tunctl login HOST` for each of your hosts, then `tunctl status` shows the jobs; after that, remove %s", file))
		return
	}
	e.ok("state", "%s is writable", e.State)
}

func (e *examination) agent(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	st, err := e.Status(ctx)
	switch {
	case err != nil:
		e.failed("agent", err, "`tunctl agent log` shows what the agent last did; `tunctl agent restart` restarts it")
	case st.Agent == nil:
		e.ok("agent", "not running, so nothing is up: `tunctl up` starts it")
	case st.Agent.Version != e.Version:
		e.bad("agent", fmt.Sprintf("the running agent is version %s, this program is %s", st.Agent.Version, e.Version), "`tunctl agent restart` starts this version")
	case st.Config != nil:
		e.bad("agent", "the agent keeps using the last valid config, because the file has errors: "+st.Config.Message, "`tunctl config edit` opens the file")
	case st.Agent.Paused != nil:
		e.bad("agent", st.Agent.Paused.Message, "`tunctl up` connects again; `tunctl agent log` shows what happened before, `tunctl doctor --bundle report.zip` packs it for a bug report")
	default:
		e.ok("agent", "running since %s (pid %d)", api.ClockText(st.Agent.Since, time.Now()), st.Agent.PID)
	}
	if err == nil {
		e.status = st
	}
}
