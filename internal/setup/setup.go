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
	if p.ownsJob() && len(p.job.Answers) > 0 {
		return api.Errorf(api.CodeUsage, "--with is for the jobs that come with tunctl, not for your own: leave it out, or leave out --submit and --job")
	}
	var err error // a slip in what was given comes before questions about the rest
	if p.job.Answers, err = configs.CheckChoices(p.job.Questions(), p.job.Answers); err != nil {
		return err
	}
	if err := st.askSession(ctx); err != nil || p.ownsJob() {
		return err
	}
	return st.jobQuestions().askAll(ctx)
}

func (st *setup) jobQuestions() *jobQuestions {
	return &jobQuestions{asker: st.asker, config: st.Config, plan: &st.plan, looked: st.looked}
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
	case st.Session != "":
		return api.Errorf(api.CodeUsage, "session %q already exists in %s", wanted, st.Config.Path).
			WithHint("use another name: init changes only sessions of the same host whose job comes with tunctl; `tunctl config edit` opens the file")
	}
	p.session = wanted + "-" + p.host
	for n := 2; taken(p.session); n++ {
		p.session = fmt.Sprintf("%s-%s-%d", wanted, p.host, n)
	}
	st.Say("[session.%s] already exists, so a new one is called %s. To change the first: `tunctl config edit`", wanted, p.session)
	return nil
}

// askChange offers to change a session that the host has for the app, and reports whether the
// user wants that. Flags change the one that they name; a command that is repeated adds no second one.
func (st *setup) askChange(ctx context.Context) (bool, error) {
	p := &st.plan
	var offers []offer
	named := st.Session
	for _, s := range st.Config.Sessions {
		if s.Host == p.host && s.Builtin() == p.job.App && (st.Session == "" || st.Session == s.Name) {
			offers = append(offers, offer{value: s.Name, label: "change " + s.Name, about: answersText(p.job.Questions(), s.With)})
			if named == "" && maps.Equal(s.WithAnswers(p.job.Answers).With, s.With) {
				named = s.Name
			}
		}
	}
	if len(offers) == 0 || p.ownsJob() || st.Print && !st.Interactive && st.Session == "" {
		return false, nil
	}
	if !st.Interactive && named == "" {
		return false, api.Errorf(api.CodeUsage, "%s has [session.%s] already, with other settings (%s)", p.host, offers[0].value, offers[0].about).
			WithHint("`--session %s` changes it; `--session` with a new name adds another session", offers[0].value)
	}
	change := func(text string) error {
		s, ok := st.Config.Session(text)
		if !ok {
			return nil
		}
		p.session, p.jobName, p.job.Answers, p.changes = s.Name, s.Job, s.WithAnswers(p.job.Answers).With, true
		return nil
	}
	if !st.Interactive || st.Session != "" {
		return true, change(named)
	}
	q := configs.Question{Ask: fmt.Sprintf("%s is set up already. What should be done?", p.host)}
	err := st.ask(ctx, q, "--session", append(offers, offer{label: "add another session"}), change)
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
		p, enter := &st.plan, "try "+st.plan.ssh+" again"
		if p.changesHost() {
			enter = "keep " + p.configured
		}
		q := configs.Question{Ask: fmt.Sprintf("Press Enter to %s, or type another USER@HOST (nothing is written yet):", enter)}
		err = st.ask(ctx, q, "", nil, func(text string) error {
			err := st.checkHost(text)
			if err != nil {
				return err
			}
			p.ssh = cmp.Or(text, p.configured, p.ssh)
			if text != "" && p.configured == "" {
				st.nameHost()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// withoutLogin is the error of what failed on the host: a login where nobody can be asked, or a look at a script.
func withoutLogin(err error) error {
	hint := api.HintOf(err)
	if api.HasCode(err, api.CodeNeedsPerson) {
		hint = "run it in a terminal"
	}
	return api.ReplaceHint(err, "%s", strings.TrimPrefix(hint+"; nothing was written: --no-login writes it without logging in", "; "))
}

func (st *setup) tryLogin(ctx context.Context) error {
	p := &st.plan
	if own := st.Config.Host(p.host); p.changesHost() && own.BeforeLogin == "" && own.Transport == "" {
		// The new address is tried beside the connection that works, which shares this login then.
		if !st.inConfig(p.ssh) {
			defer func() { _ = st.Client.Logout(context.WithoutCancel(ctx), p.ssh) }() // the agent may not know it
		}
		if err := st.Login(ctx, p.ssh); err != nil {
			return err
		}
	}
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
	if user := p.usedBy(st.Config); user != "" && p.ownsJob() && st.Session == "" {
		st.Say("%s [session.%s] uses %s already, so nothing was added", st.Paint(term.Green, "✓"), user, cmp.Or(p.submit, "jobs called "+p.jobName))
		st.Say("Next: tunctl up %s", user)
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
			if refused, err = st.checkJob(ctx); err != nil {
				return err
			}
		}
		if refused == "" || p.ownsJob() || ctx.Err() != nil {
			break
		}
		if !st.Interactive {
			return api.Errorf(api.CodeFailed, "nothing was written, since the scheduler refuses the job").
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
	if !st.file.changed() {
		done = "unchanged in"
	}
	st.Say("%s %s %s:", st.Paint(term.Green, "✓"), done, st.Config.Path)
	fmt.Fprintf(st.Err, "\n%s\n", text) // as it is in the file, with long lines
	st.Say("%s", p.nextStep(refused))
	return nil
}

// checkJob asks the scheduler whether it would accept the session's job, which is not
// submitted, and returns why not. A script that cannot be read is an error.
func (st *setup) checkJob(ctx context.Context) (refused string, err error) {
	st.Draw("asking the scheduler whether it accepts the job …")
	var preview api.Preview
	err = st.Client.Preview(ctx, api.PreviewRequest{Session: st.plan.session, With: []api.Choices{{}}}, func(p api.Preview) { preview = p })
	st.Draw("")
	switch {
	case ctx.Err() != nil:
	case st.plan.submit != "" && api.HasCode(err, api.CodeSubmit):
		return "", withoutLogin(err)
	case err != nil:
		st.Say("%s could not check the job: %v", st.Paint(term.Yellow, "!"), err)
	case preview.Refused != "":
		refused = strings.TrimPrefix(api.Sanitize(preview.Refused), "the scheduler did not accept the job: ")
		st.Say("%s the scheduler refuses the job: %s", st.Paint(term.Red, "✗"), refused)
	case st.tooMuch(st.plan.job.Answers) != nil:
		st.Say("%s the scheduler does not refuse the job, but it cannot start: %v", st.Paint(term.Yellow, "!"), st.tooMuch(st.plan.job.Answers))
	case preview.Start.IsZero() && preview.Why != "": // perhaps that the job was submitted, and is cancelled
		st.Say("%s", api.Sanitize(preview.Why))
	case !preview.Start.IsZero():
		st.Say("%s the scheduler would accept the job; start: %s", st.Paint(term.Green, "✓"), api.Sanitize(show.Start(preview, time.Now())))
	}
	return refused, nil //nolint:nilerr // it has been said
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
