package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tunctl/internal/api"
)

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
	for _, dir := range e.Search {
		path := filepath.Join(dir, programName)
		info, err := os.Stat(path)
		switch {
		case err != nil || info.IsDir() || !isExecutable(info):
		case os.SameFile(info, own):
			e.ok("program", "tunctl %s, %s", e.Version, path)
			return
		default:
			e.bad("program", fmt.Sprintf("another program called tunctl comes first on the PATH: %s", path),
				fmt.Sprintf("put %s before %s in the PATH, or call %s", filepath.Dir(e.Program), dir, e.Program))
			return
		}
	}
	e.unknown("program", fmt.Sprintf("tunctl %s is not on the PATH", e.Version), "add "+filepath.Dir(e.Program)+" to the PATH")
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
	fix := "free disk space, or make the folder writable; TUNCTL_HOME moves all of tunctl's files"
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
