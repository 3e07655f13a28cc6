// Package setup is `tunctl init`: it asks which cluster the user means, logs in, looks for accounts,
// partitions and environments there, asks what is left to choose, and adds to the config what worked.
// What a look finds is the agent's; what a site's job needs is in package configs.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

// Options are the answers that were given beforehand, and what the setup works with.
type Options struct {
	Argument  string            // a site or a host; "": asked for
	Host      string            // the address of the login node, or its ssh alias
	Entrance  string            // the login node of the site, by its name
	User      string            // on the cluster
	Scheduler string            // of a host of no known site
	App       string            // of the builtin jobs
	Session   string            // the name of the new session; "": the app's
	Submit    string            // a job script of the user's
	Job       string            // the name of the jobs to use
	With      map[string]string // answers to the questions of the job
	NoLook    bool              // ask, and look for no answers on the host
	NoLogin   bool
	Print     bool // print the section, and change nothing

	Config    *configs.Config // empty if there is no file yet
	Sites     configs.Sites
	SSHConfig string // the file that is read in place of ~/.ssh/config
	Client    *client.Client
	// Login starts the agent, has it read the config, and connects to a host of that.
	Login func(ctx context.Context, host string) error
}

// setup gets the plan from the options, or from the user.
type setup struct {
	Options
	*asker
	plan   plan
	hosts  *sshHosts
	file   configFile
	logsIn bool
	looks  bool // logs in first, and looks for answers on the host
	looked bool // and found is the result
}

// Run asks the user, logs in and adds to the config what worked.
func Run(ctx context.Context, t *term.Terminal, o Options) error {
	st, err := newSetup(t, o)
	if err != nil {
		return err
	}
	if err = st.run(ctx); err != nil {
		err = errors.Join(err, st.undo(ctx))
	}
	return err
}

func newSetup(t *term.Terminal, o Options) (*setup, error) {
	st := &setup{
		Options: o,
		plan: plan{
			job:     configs.Job{App: o.App, Name: o.App, Answers: o.With},
			session: cmp.Or(o.Session, o.App), submit: o.Submit, jobName: o.Job, adopts: o.Job != "",
		},
		logsIn: !o.NoLogin && !o.Print,
	}
	st.looks = t.Interactive && st.logsIn && !o.NoLook
	st.asker = &asker{Terminal: t, job: &st.plan.job}
	hosts, err := newSSHHosts(o.SSHConfig, o.Sites)
	if err != nil {
		t.Say("tunctl: %v", err)
	}
	st.hosts = hosts
	st.file, err = readConfigFile(o.Config.Path, o.Client)
	return st, err
}

// run asks everything. With a look, the login comes before the questions that it answers;
// otherwise after them, so that a missing answer costs no login.
func (st *setup) run(ctx context.Context) error {
	if err := st.askCluster(ctx); err != nil {
		return err
	}
	if st.looks {
		if err := st.logIn(ctx); err != nil {
			return err
		}
		if err := st.look(ctx); err != nil {
			return err
		}
	}
	if err := st.askJob(ctx); err != nil {
		return err
	}
	if st.Print {
		text, err := st.plan.text()
		if err != nil {
			return err
		}
		_, err = io.WriteString(st.Out, text)
		return err
	}
	if st.logsIn && !st.looks {
		if err := st.logIn(ctx); err != nil {
			return err
		}
	}
	return st.addSession(ctx)
}

// askCluster asks for the site and for the host, which the config may have already.
func (st *setup) askCluster(ctx context.Context) error {
	p := &st.plan
	var err error
	if p.job.Site, err = st.askSite(ctx); err != nil {
		return err
	}
	known, found := st.knownHost(p.job.Site)
	if found {
		p.host, p.configured = known.Name, known.SSH
		return st.askSameHost(ctx)
	}
	if p.ssh, err = st.askHost(ctx, p.job.Site); err != nil {
		return err
	}
	st.nameHost()
	return nil
}

// nameHost names the host in the config by its destination.
func (st *setup) nameHost() {
	p := &st.plan
	p.host, p.configured = hostName(st.Config, st.Argument, p.job.Site, p.ssh), ""
	if st.inConfig(p.host) {
		p.configured = st.Config.Host(p.host).SSH
	}
}

// askJob asks for the session and its job.
func (st *setup) askJob(ctx context.Context) error {
	p := &st.plan
	if err := st.askSession(ctx); err != nil {
		return err
	}
	if p.ownsJob() {
		if len(p.job.Answers) > 0 {
			return api.Errorf(api.CodeUsage, "--with is for the jobs that come with tunctl, not for your own: leave it out, or leave out --submit and --job")
		}
		return nil
	}
	return st.jobQuestions().askAll(ctx)
}

func (st *setup) jobQuestions() *jobQuestions {
	return &jobQuestions{asker: st.asker, plan: &st.plan, looked: st.looked}
}

// askSession finds the session to change, or a name that no session has.
func (st *setup) askSession(ctx context.Context) error {
	p := &st.plan
	defer func() { p.jobName = cmp.Or(p.jobName, jobName(st.Config, p.job.Site, p.host, p.session)) }()
	taken := func(name string) bool { _, ok := st.Config.Session(name); return ok }
	if changed, err := st.askChange(ctx); changed || err != nil {
		return err
	}
	wanted := p.session
	switch {
	case !taken(wanted):
		return nil
	case st.Session == "":
		p.session = wanted + "-" + p.host
		for n := 2; taken(p.session); n++ {
			p.session = fmt.Sprintf("%s-%s-%d", wanted, p.host, n)
		}
		st.Say("[session.%s] already exists, so this one is called %s. To change the first: `tunctl config edit`", wanted, p.session)
		return nil
	case !st.Interactive:
		return api.Errorf(api.CodeUsage, "session %q already exists in %s", wanted, st.Config.Path)
	}
	q := configs.Question{Ask: fmt.Sprintf("Session %q already exists. Another name:", wanted)}
	return st.ask(ctx, q, "--session", nil, func(text string) error {
		if taken(text) {
			return api.Errorf(api.CodeUsage, "session %q already exists", text)
		}
		p.session = text
		return CheckSessionName(text)
	})
}

// askChange offers to change a session that the host has for the app, and reports whether the
// user wants that.
func (st *setup) askChange(ctx context.Context) (bool, error) {
	p := &st.plan
	var offers []offer
	for _, s := range st.Config.Sessions {
		if s.Host == p.host && s.Builtin() == p.job.App && (st.Session == "" || st.Session == s.Name) {
			offers = append(offers, offer{value: s.Name, label: "change " + s.Name, about: answersText(p.job.Questions(), s.With)})
		}
	}
	if len(offers) == 0 || !st.Interactive || p.ownsJob() {
		return false, nil
	}
	offers = append(offers, offer{label: "add another session"})
	q := configs.Question{Ask: fmt.Sprintf("%s is set up already. What should be done?", p.host)}
	err := st.ask(ctx, q, "--session", offers, func(text string) error {
		s, ok := st.Config.Session(text)
		if !ok {
			return nil
		}
		answers := maps.Clone(s.With)
		maps.Copy(answers, p.job.Answers)
		p.session, p.jobName, p.job.Answers, p.changes = s.Name, s.Job, answers, true
		return nil
	})
	return p.changes, err
}

// CheckSessionName refuses a name that would need quotes after [session.
func CheckSessionName(name string) error {
	if !plainName.MatchString(name) {
		return api.Errorf(api.CodeUsage, "%q is not a valid session name: use letters, digits, '-' and '_'", name)
	}
	return nil
}

// logIn writes the host to the config, since the agent knows hosts by that, and logs in. A
// host that cannot be logged in to does not stay there: the user may correct its address.
func (st *setup) logIn(ctx context.Context) error {
	for {
		err := st.tryLogin(ctx)
		if err == nil {
			return nil
		}
		if failed := st.undo(ctx); failed != nil {
			return errors.Join(err, failed)
		}
		if !st.Interactive || ctx.Err() != nil {
			return withoutLogin(err)
		}
		text, _, _ := strings.Cut(err.Error(), "; next try at") // nobody tries again
		st.Say("%s %s", st.Paint(term.Red, "✗"), text)
		if hint := api.HintOf(err); hint != "" {
			st.Say("  %s", hint)
		}
		answer, err := st.readLine(ctx, "Press Enter to try again, or type another USER@HOST (nothing is written yet): ")
		if err != nil {
			return err
		}
		if answer != "" {
			st.plan.ssh = answer
			if st.plan.configured == "" {
				st.nameHost()
			}
		}
	}
}

// withoutLogin is the error of a login that failed where nobody can be asked.
func withoutLogin(err error) error {
	hint := api.HintOf(err)
	if api.HasCode(err, api.CodeNeedsPerson) {
		hint = "run it in a terminal"
	}
	const instead = "nothing was written: --no-login writes it without logging in"
	if hint == "" {
		return api.ReplaceHint(err, instead)
	}
	return api.ReplaceHint(err, "%s; %s", hint, instead)
}

func (st *setup) tryLogin(ctx context.Context) error {
	p := &st.plan
	text, err := p.withHost(st.file.before)
	if err != nil {
		return err
	}
	if err := st.file.write(ctx, text); err != nil {
		return err
	}
	if p.changesHost() { // else the old connection would count
		if err := st.Client.Logout(ctx, p.host); err != nil && !errors.Is(err, client.ErrNotRunning) && !api.HasCode(err, api.CodeUnknownHost) {
			return err
		}
	}
	err = st.Login(ctx, p.host)
	p.loggedIn = err == nil
	return err
}

// undo restores the config, and ends the connection to a host that is no longer in it.
func (st *setup) undo(ctx context.Context) error {
	if !st.file.changed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if st.plan.configured == "" {
		_ = st.Client.Logout(ctx, st.plan.host) // the agent may not know it
	}
	return st.file.write(ctx, st.file.before)
}

// undoTimeout is how long the agent may take to forget a host.
const undoTimeout = 10 * time.Second

// addSession adds the session to the config, or changes it, until the scheduler accepts its
// job or the user keeps it as it is, and says what comes next.
func (st *setup) addSession(ctx context.Context) error {
	p := &st.plan
	same := func(s configs.Session) bool { return s.Host == p.host && s.Submit == p.submit }
	if i := slices.IndexFunc(st.Config.Sessions, same); i >= 0 && p.submit != "" && st.Session == "" {
		st.Say("%s [session.%s] starts %s already, so nothing was added", st.Paint(term.Green, "✓"), st.Config.Sessions[i].Name, p.submit)
		st.Say("Next: tunctl up %s", st.Config.Sessions[i].Name)
		return st.file.write(ctx, st.file.before)
	}
	var refused string
	for {
		text, err := p.config(st.file.before)
		if err != nil {
			return err
		}
		if err := st.file.write(ctx, text); err != nil {
			return err
		}
		if p.loggedIn && (p.submit != "" || !p.adopts) {
			refused = st.checkJob(ctx)
		}
		if refused == "" || p.ownsJob() || ctx.Err() != nil {
			break
		}
		if !st.Interactive {
			return api.Errorf(api.CodeFailed, "the scheduler refuses the job, so nothing was written: %s", refused).
				WithHint("change it by --with, or write it without a login: --no-login")
		}
		tried := maps.Clone(p.job.Answers)
		if err := st.jobQuestions().askChanges(ctx, true); err != nil {
			return err
		}
		if maps.Equal(tried, p.job.Answers) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := p.text()
	if err != nil {
		return err
	}
	done := "added to"
	if p.changes {
		done = "changed in"
	}
	st.Say("%s %s %s:", st.Paint(term.Green, "✓"), done, st.Config.Path)
	fmt.Fprintf(st.Err, "\n%s\n", text) // as it is in the file, with long lines
	st.Say("%s", p.nextStep(refused))
	return nil
}

// checkJob asks the scheduler whether it would accept the session's job, which is not
// submitted, and returns why not.
func (st *setup) checkJob(ctx context.Context) (refused string) {
	st.Draw("asking the scheduler whether it accepts the job …")
	var preview api.Preview
	err := st.Client.Preview(ctx, api.PreviewRequest{Session: st.plan.session, With: []api.Choices{{}}}, func(p api.Preview) { preview = p })
	st.Draw("")
	switch {
	case ctx.Err() != nil:
	case err != nil:
		st.Say("%s could not check the job: %v", st.Paint(term.Yellow, "!"), err)
	case preview.Refused != "":
		refused = api.Sanitize(preview.Refused)
		st.Say("%s the scheduler refuses the job: %s", st.Paint(term.Red, "✗"), refused)
	case preview.Start.IsZero() && preview.Why != "": // perhaps that the job was submitted, and is cancelled
		st.Say("%s", api.Sanitize(preview.Why))
	case !preview.Start.IsZero():
		st.Say("%s the scheduler would accept the job; start: %s", st.Paint(term.Green, "✓"), api.Sanitize(show.Start(preview, time.Now())))
	}
	return refused
}

// look finds out what the host has.
func (st *setup) look(ctx context.Context) error {
	if st.plan.ownsJob() {
		return nil // nothing is left to ask
	}
	st.Draw("looking for accounts, partitions and Jupyter there, for at most half a minute …")
	found, err := st.Client.Look(ctx, st.plan.host)
	st.Draw("")
	switch {
	case ctx.Err() != nil || api.HasCode(err, api.CodeFailed):
		return err // the host has a scheduler that tunctl cannot use, or runs no commands
	case err != nil:
		st.Say("%s could not find out what is there: %v", st.Paint(term.Yellow, "!"), err)
	default:
		st.found, st.looked = found, true
	}
	for _, problem := range found.Problems {
		st.Say("%s %s: no answer in time", st.Paint(term.Yellow, "!"), problem)
	}
	if st.plan.job.Site.Name == "" {
		st.plan.siteFound = true
		if st.plan.ownMachine, err = st.askOwnMachine(ctx, found.Scheduler); err != nil {
			return err
		}
		st.plan.job.Site, err = st.foundSite(ctx, found.Scheduler)
	}
	return err
}

// foundSite is the site of a host that the user named: the config's, or the generic one of
// its scheduler.
func (st *setup) foundSite(ctx context.Context, scheduler string) (configs.Site, error) {
	known := st.Config.Host(st.plan.host)
	if scheduler == "" && known.Site == "" {
		var err error
		if scheduler, err = st.answer(ctx, schedulerQuestion(st.plan.host), ""); err != nil {
			return configs.Site{}, err
		}
		st.Say("Set scheduler = %q in [host.%s] if it is not found later either: `tunctl config edit`", scheduler, st.plan.host)
	}
	return st.Sites.ForHost(known, scheduler)
}

// askOwnMachine asks whether a host without a known scheduler is the user's own, so that jobs may run on it.
func (st *setup) askOwnMachine(ctx context.Context, scheduler string) (bool, error) {
	if configs.Quote(scheduler) != noScheduler || st.Config.Host(st.plan.host).Scheduler != "" {
		return false, nil
	}
	text, err := st.readLine(ctx, OwnMachineQuestion(st.plan.host)+" [y/N] ")
	if err == nil && !(api.Answer{Text: text}).IsYes() {
		err = api.Errorf(api.CodeNoScheduler, "no scheduler was found on %s, so nothing was written", st.plan.host).
			WithHint("put the scheduler's commands on the PATH of your login shell there, or give it with --scheduler")
	}
	return err == nil, err
}
