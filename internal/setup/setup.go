// Package setup is `tunctl init`: it asks which cluster the user means, logs in, looks for accounts,
// partitions and environments there, asks what is left to choose, and adds a section to the config.
// What a look finds is the agent's; what a site's job needs is in package configs.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	plan     plan
	hosts    *sshHosts
	address  string // of the login node, or its ssh alias
	entrance string
	probes   bool
	looks    bool // logs in first, and looks for answers on the host
	looked   bool // and found is the result
	found    api.Look
}

// Run asks the user, adds to the config and tries to log in.
func Run(ctx context.Context, t *term.Terminal, o Options) error {
	st := newSetup(t, o)
	if err := st.askAll(ctx); err != nil {
		return err
	}
	text, err := st.plan.text()
	if err != nil {
		return err
	}
	if o.Print {
		_, err := io.WriteString(t.Out, text)
		return err
	}
	if err := Append(ctx, o.Client, o.Config.Path, text); err != nil {
		return err
	}
	t.Say("%s added to %s:", t.Paint(term.Green, "✓"), o.Config.Path)
	fmt.Fprintf(t.Err, "\n%s\n", text) // as it is in the file, with long lines
	if !o.NoLogin && !st.plan.loggedIn {
		if err := st.login(ctx, "login"); err != nil {
			return err
		}
	}
	if st.plan.loggedIn && (st.plan.submit != "" || !st.plan.adopts) {
		st.checkJob(ctx)
	}
	t.Say("Next: tunctl up %s", st.plan.session)
	return nil
}

func newSetup(t *term.Terminal, o Options) *setup {
	st := &setup{
		Options: o, address: o.Host, entrance: o.Entrance,
		plan: plan{
			job:     configs.Job{App: o.App, Name: o.App, Answers: o.With},
			session: cmp.Or(o.Session, o.App), submit: o.Submit, jobName: o.Job, adopts: o.Job != "",
		},
		probes: t.Interactive && !o.NoLogin && !o.Print,
	}
	st.looks = st.probes && !o.NoLook
	st.asker = &asker{Terminal: t, job: &st.plan.job}
	hosts, err := newSSHHosts(o.SSHConfig, o.Sites)
	if err != nil {
		t.Say("tunctl: %v", err)
	}
	st.hosts = hosts
	return st
}

// askAll asks everything.
func (st *setup) askAll(ctx context.Context) error {
	p := &st.plan
	var err error
	if p.job.Site, err = st.askSite(ctx); err != nil {
		return err
	}
	if p.ssh, err = st.askHost(ctx, p.job.Site); err != nil {
		return err
	}
	p.host = hostName(st.Config, st.Argument, p.job.Site, p.ssh)
	if st.inConfig(p.host) {
		st.Say("[host.%s] is already in the config (%s) and stays as it is", p.host, st.Config.Host(p.host).SSH)
		p.hostExists = true
	}
	if st.looks {
		if err := st.look(ctx); err != nil {
			return err
		}
	}
	if p.session, err = st.askSession(ctx); err != nil {
		return err
	}
	p.jobName = cmp.Or(p.jobName, jobName(st.Config, p.job.Site, p.host, p.session))
	if p.ownsJob() {
		if len(p.job.Answers) > 0 {
			return api.Errorf(api.CodeUsage, "--with is for the jobs that come with tunctl, not for your own: leave it out, or leave out --submit and --job")
		}
		return nil
	}
	return (&jobQuestions{asker: st.asker, plan: p, looked: st.looked, found: st.found}).askAll(ctx)
}

// askSession finds an unused name.
func (st *setup) askSession(ctx context.Context) (string, error) {
	taken := func(name string) bool { _, ok := st.Config.Session(name); return ok }
	wanted := st.plan.session
	switch {
	case !taken(wanted):
		return wanted, nil
	case st.Session == "":
		name := wanted + "-" + st.plan.host
		for n := 2; taken(name); n++ {
			name = fmt.Sprintf("%s-%s-%d", wanted, st.plan.host, n)
		}
		st.Say("[session.%s] already exists, so this one is called %s. To change the first: `tunctl config edit`", wanted, name)
		return name, nil
	case !st.Interactive:
		return "", api.Errorf(api.CodeUsage, "session %q already exists in %s", wanted, st.Config.Path)
	}
	var name string
	q := configs.Question{Ask: fmt.Sprintf("Session %q already exists. Another name:", wanted)}
	err := st.ask(ctx, q, "--session", nil, func(text string) error {
		if name = text; taken(name) {
			return api.Errorf(api.CodeUsage, "session %q already exists", name)
		}
		return CheckSessionName(name)
	})
	return name, err
}

// CheckSessionName refuses a name that would need quotes after [session.
func CheckSessionName(name string) error {
	if !plainName.MatchString(name) {
		return api.Errorf(api.CodeUsage, "%q is not a valid session name: use letters, digits, '-' and '_'", name)
	}
	return nil
}

// Append adds text at the end of the config file. A running agent has read it when this returns.
func Append(ctx context.Context, cl *client.Client, config, text string) error {
	if err := configs.Append(config, text); err != nil {
		return err
	}
	if err := cl.Reload(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	return nil
}

// login logs in as `tunctl up` would. If that fails, the config stays, and the command again
// tries again.
func (st *setup) login(ctx context.Context, again string) error {
	err := st.Login(ctx, st.plan.host)
	if err == nil || ctx.Err() != nil {
		return err
	}
	st.Say("The login failed, but the config was written: `tunctl %s %s` tries again.\n`tunctl config edit` changes or removes it.", again, st.plan.host)
	return err
}

// checkJob asks the scheduler whether it would accept the session's job, which is not
// submitted.
func (st *setup) checkJob(ctx context.Context) {
	st.Draw("asking the scheduler whether it accepts the job …")
	var preview api.Preview
	err := st.Client.Preview(ctx, api.PreviewRequest{Session: st.plan.session, With: []api.Choices{{}}}, func(p api.Preview) { preview = p })
	st.Draw("")
	switch {
	case ctx.Err() != nil:
	case err != nil:
		st.Say("%s could not check the job: %v", st.Paint(term.Yellow, "!"), err)
	case preview.Refused != "":
		st.Say("%s %s\n`tunctl config edit` changes its answers", st.Paint(term.Yellow, "!"), api.Sanitize(preview.Refused))
	case preview.Start.IsZero() && preview.Why != "": // perhaps that the job was submitted, and is cancelled
		st.Say("%s", api.Sanitize(preview.Why))
	case !preview.Start.IsZero():
		st.Say("%s the scheduler would accept the job; start: %s", st.Paint(term.Green, "✓"), api.Sanitize(show.Start(preview, time.Now())))
	}
}
