package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// clockSkew is how far the clock of a host may be off.
const clockSkew = 2 * time.Minute

// checkup checks a host, or a session there, over its existing connection.
type checkup struct {
	agent   *session.Parts
	host    *tunnel.Host
	name    string
	session *session.Session // nil: the host alone
	checks  []api.Check
}

// handleCheck is the agent's part of `tunctl doctor`. It never connects.
func (a *server) handleCheck(ctx context.Context, req api.CheckRequest) (api.CheckResponse, error) {
	c := &checkup{agent: a.Parts, name: req.Host, host: a.Hosts.Pool.Host(req.Host), checks: []api.Check{}}
	if err := a.Hosts.Connected(ctx, req.Host); err != nil {
		return api.CheckResponse{}, err
	}
	if req.Session == "" {
		h := c.host.Status()
		c.ok("login", "logged in by %s%s, round trip %.1f ms", h.LoginMethods(), onNode(h.LoginNode), h.RTTMs)
		c.scheduler(ctx)
		c.disk(ctx)
		c.forwarding(ctx)
		return api.CheckResponse{Checks: c.checks}, nil
	}
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return api.CheckResponse{}, err
	}
	c.session = s
	c.checkSession(ctx)
	return api.CheckResponse{Checks: c.checks}, nil
}

func (c *checkup) add(name string, result api.CheckResult, text, fix string) {
	c.checks = append(c.checks, api.Check{Name: name, Result: result, Text: api.Redact(text), Fix: fix})
}

func (c *checkup) ok(name, format string, args ...any) {
	c.add(name, api.CheckOK, fmt.Sprintf(format, args...), "")
}

// failed reports an error with its own hint, or else with fix.
func (c *checkup) failed(name string, err error, fix string) {
	if hint := api.HintOf(err); hint != "" {
		fix = hint
	} else if errors.Is(err, remote.ErrLost) || errors.Is(err, api.ErrDown) {
		fix = "the connection was just lost: check the network, then run `tunctl doctor` again"
	}
	c.add(name, api.CheckBad, err.Error(), fix)
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " on " + node
}

func (c *checkup) scheduler(ctx context.Context) {
	jobs := c.agent.Hosts.Watcher(c.name)
	kind, err := jobs.Scheduler(ctx)
	if err == nil && jobs.JobsAreProcesses(ctx) {
		_, err = jobs.Login(ctx) // the config may have said it: nothing was run yet
	}
	if err != nil {
		c.failed("scheduler", err, "set scheduler to "+configs.SchedulerChoice()+" for this host")
		return
	}
	if jobs.JobsAreProcesses(ctx) {
		c.add("scheduler", api.CheckUnknown, "no scheduler found: jobs are plain processes", "if there is one, its commands must be on the PATH of a login shell")
		return
	}
	switch list, err := jobs.Jobs(ctx); {
	case errors.Is(err, remote.ErrNoAnswer):
		c.add("scheduler", api.CheckBad, fmt.Sprintf("%s: %v", kind, err), "wait: jobs keep running; see the status page of the site")
	case err != nil:
		c.failed("scheduler", err, "check that squeue or qstat works in `tunctl ssh "+c.name+"`")
	default:
		c.ok("scheduler", "%s responds; your jobs there: %d", kind, len(list))
	}
}

// diskScript prints the host's time and the folder f, and writes a file there, as a
// submission does.
const diskScript = `date +%s
printf '%s\n' "$f"
mkdir -p "$f" && head -c 65536 /dev/zero >"$f/.doctor.$$"; s=$?
rm -f "$f/.doctor.$$"
exit $s`

// disk checks that the folder for tunctl's files is writable: with a full quota jobs fail
// in strange ways.
func (c *checkup) disk(ctx context.Context) {
	before := time.Now()
	private := c.agent.Hosts.WatchOptions(c.name).Private
	res, err := remote.On(hosts.Runner{Host: c.host}).Login(ctx, `f="`+cmp.Or(private, "$HOME/.tunctl")+"\"\n"+diskScript)
	if err != nil {
		c.failed("disk", err, "see whether `tunctl ssh "+c.name+" true` works")
		return
	}
	clock, folder, _ := strings.Cut(strings.TrimSpace(string(res.Stdout)), "\n")
	name := "your home folder"
	if private != "" && folder != "" {
		name = "the folder " + api.NewRemoteText(folder).String()
	}
	if full := c.agent.Store.FullText(c.name); res.Exit == 0 && full != "" {
		c.add("disk", api.CheckBad, full, "delete files there, caches first (~/.cache, pip, conda)")
	} else if res.Exit == 0 {
		c.ok("disk", "%s on the host is writable", name)
	} else {
		why := strings.TrimSpace(string(res.Stderr))
		why = api.NewRemoteText(why[strings.LastIndexByte(why, '\n')+1:]).String()
		c.add("disk", api.CheckBad, "cannot write to "+name+" on the host: "+why,
			"`tunctl quota "+c.name+"` shows your usage; delete files there, caches first (~/.cache, pip, conda)")
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(clock), 10, 64)
	if off := time.Unix(seconds, 0).Sub(before).Abs(); err == nil && off > clockSkew {
		c.add("clock", api.CheckBad, fmt.Sprintf("the clocks of this computer and the host differ by %s", api.DurationText(off)),
			"correct the clock of this computer: one-time codes and job times depend on it")
	}
}

// forwarding dials a port on the login node where nothing listens: "refused" proves that
// the host forwards, and disturbs nobody.
func (c *checkup) forwarding(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.agent.Limits.Run.Probe.Request)
	defer cancel()
	conn, err := c.host.Dial(ctx, "tcp", "127.0.0.1:9")
	if err == nil {
		_ = conn.Close()
	}
	switch {
	case err == nil, errors.Is(err, api.ErrRefused):
		c.ok("forwarding", "the host forwards connections")
	case errors.Is(err, api.ErrProhibited):
		c.ok("forwarding", "the host forwards no connections: pages are reached by a command there or inside their jobs")
	default:
		c.failed("forwarding", err, "try again")
	}
}

func (c *checkup) checkSession(ctx context.Context) {
	cfg, f := c.session.Config(), c.session.Facts()
	c.script(ctx, cfg)
	if !f.NeedsJob {
		return
	}
	switch {
	case f.Job() == nil:
		c.ok("job", "none now: `tunctl up %s` finds or submits one", c.session.Name)
		return
	case f.Job().State.Ended():
		c.add("job", api.CheckBad, facts.EndText(f.Job(), time.Now()), "`tunctl up "+c.session.Name+"` starts a new one")
	case f.Job().State == api.JobUnknown:
		c.add("job", api.CheckUnknown, f.Job().Hint, "")
	default:
		c.ok("job", "job %s is %s%s", f.Job().ID, f.Job().State, onNode(f.Job().Node))
	}
	c.log(ctx, *f.Job())
	c.page(ctx, f)
	if nodes, err := c.session.RunningNodes(); err == nil && f.Answers {
		c.lostConnection(nodes.Ends(), c.session.Status())
		c.cells(session.RunsCells(ctx, c.session))
	}
}

// cells says that nothing is collected where an extension of the server runs the cells; "": none does.
func (c *checkup) cells(extension string) {
	if extension != "" {
		c.add("cells", api.CheckUnknown, "nothing that cells print is collected, since the server itself runs them ("+extension+"): `tunctl output` has nothing of them",
			"open the page again: the server keeps what they print while no page is open")
	}
}

// lostConnection says what a lost connection would mean for what runs inside the job: why it ends with it,
// or nil.
func (c *checkup) lostConnection(ends error, s api.Session) {
	const check = "reconnect"
	needs := "it takes python3 (3.6 or newer) on the node, a way into the job, and no resume = false in [host." + s.Host + "] or the site file"
	switch w := s.Websockets; {
	case ends != nil:
		c.add(check, api.CheckUnknown, fmt.Sprintf("shells and editors inside the job, and kernels of the page, end with a lost connection: %v", ends), needs)
	case w != nil && !w.Continue:
		c.add(check, api.CheckUnknown, "kernels and terminals of the page have to reconnect after a lost connection: "+w.Why, needs)
	case w == nil && s.Endpoint != nil:
		c.ok(check, "after a lost connection shells and editors inside the job continue; WebSockets of the page end")
	default:
		c.ok(check, "after a lost connection shells, editors and kernels inside the job continue")
	}
}

// script checks that the job script is readable.
func (c *checkup) script(ctx context.Context, cfg configs.Session) {
	path := cfg.Submit
	if path == "" || strings.HasPrefix(path, "builtin:") {
		return
	}
	if strings.HasPrefix(path, configs.LocalPrefix) {
		if _, err := c.agent.Source(cfg).Unchecked(nil).Order(ctx, c.agent.Hosts.Watcher(cfg.Host), "doctor"); err != nil {
			c.failed("script", err, "")
			return
		}
	} else if _, err := joblog.ReadFile(ctx, hosts.Runner{Host: c.host}, path); err != nil {
		c.add("script", api.CheckBad, fmt.Sprintf("cannot read the job script %s on the host: %v", path, err),
			fmt.Sprintf("copy it there, or change submit in [session.%s]", cfg.Name))
		return
	}
	c.ok("script", "%s is readable", path)
}

// log reads the job's log as the session does, and reports what the detector finds.
func (c *checkup) log(ctx context.Context, job api.Job) {
	path := c.session.JobLog().Path(job)
	if path == "" {
		c.add("log", api.CheckUnknown, "the scheduler does not report the log path of the job",
			fmt.Sprintf("set log = \"~/{name}.{id}.log\" in [session.%s]", c.session.Name))
		return
	}
	detector := c.agent.Settings.Detector(c.session.Config().App)
	size := 0
	err := joblog.Read(ctx, c.session.JobLog().Reader(), path, func(chunk joblog.Chunk) {
		size += len(chunk.Data)
		_, _ = detector.Write(chunk.Data)
	})
	switch {
	case err != nil && job.State.Waiting():
		c.add("log", api.CheckUnknown, fmt.Sprintf("%s does not exist yet: the job is queued", path), "")
		return
	case err != nil:
		c.add("log", api.CheckBad, fmt.Sprintf("cannot read the job log %s: %v", path, err),
			fmt.Sprintf("if this is the wrong file, set log = \"…\" in [session.%s]; PBS keeps the log on the node unless the script redirects its output", c.session.Name))
		return
	}
	c.ok("log", "%s has %d bytes", path, size)
	detector.Flush()
	switch f := detector.Finding(); {
	case c.session.Config().App == configs.ShellApp: // it serves nothing
	case !f.Found:
		c.add("detector", api.CheckUnknown, "no server address in the log yet", "`tunctl logs` shows the log; an app of your own needs patterns in [app.NAME]")
	case f.Ended:
		c.add("detector", api.CheckBad, "the server in the log has stopped", "`tunctl logs` shows why")
	default:
		c.ok("detector", "%s at %s: %s", f.App, f.Address(), f.Why)
	}
}

// page checks that the endpoint responds.
func (c *checkup) page(ctx context.Context, f facts.Facts) {
	var err error
	if ep := f.Endpoint; ep != nil && ep.Reach != api.ReachNode && !ep.TakesOneClient() {
		ctx, cancel := context.WithTimeout(ctx, c.agent.Limits.Run.Probe.Request)
		defer cancel()
		err = probe.Once(ctx, c.host, *ep)
	}
	switch ep := f.Endpoint; {
	case c.session.Config().App == configs.ShellApp && f.Answers:
		c.ok("inside", "commands run inside the job on %s", f.Job().Node)
	case ep == nil:
		if f.Doing.Text != "" && !f.Job().State.Ended() && !f.Job().State.Waiting() {
			c.add("page", api.CheckUnknown, f.Doing.Text, "")
		}
	case ep.Reach == api.ReachNode, f.Answers && errors.Is(err, api.ErrProhibited): // only the prober has the way there
		c.ok("page", "the page is reached on its node %s", f.Job().Node)
	case ep.TakesOneClient():
		c.add("page", api.CheckUnknown, ep.Address()+" takes one client, so that tunctl does not connect to it", "")
	case err != nil && !errors.Is(err, probe.ErrTokenUnknown):
		c.add("page", api.CheckBad, fmt.Sprintf("%s does not respond: %v", ep.Address(), err), "`tunctl logs` shows whether the server is still running")
	default:
		c.ok("page", "%s responds, reached from the login node", ep.Address())
	}
}
