package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// interview gets what `tunctl init` needs to know from the flags, or from the person.
type interview struct {
	inv       *invocation
	term      *term.Terminal
	cfg       *configs.Config
	sites     configs.Sites
	argument  string // a site or a host
	user      string
	entrance  string
	host      string
	scheduler string
	app       string // of configs.BuiltinJobs
	session   string
	submit    string // a job script of the person's
	job       string // the name of jobs to use
	probes    bool
	looks     bool      // logs in first, and looks for answers on the host
	found     *api.Look // what it found; nil if it did not look
	answers   map[string]string
	named     bool // the session's name was given by a flag
	aliases   []string
	hints     []siteHint
	shown     []string // the last list with numbers
	likely    string   // the site that an empty answer means
}

func newInterview(inv *invocation, cfg *configs.Config, sites configs.Sites) (*interview, error) {
	if err := inv.atMostOne("site or host"); err != nil {
		return nil, err
	}
	app := inv.String("app")
	if !slices.Contains(configs.BuiltinJobs(), app) {
		return nil, usagef("--app takes %s, not %q", strings.Join(configs.BuiltinJobs(), ", "), app)
	}
	if app == configs.CommandJob {
		return nil, api.Errorf(api.CodeUsage, "init cannot know the command to run").
			WithHint("add a session with submit = \"builtin:command\" and command = \"…\" to the config: `tunctl config edit`")
	}
	session := cmp.Or(inv.String("session"), app)
	if err := checkSessionName(session); err != nil {
		return nil, err
	}
	if host := inv.String("host"); strings.ContainsAny(host, " \t") {
		return nil, usagef("--host takes a host without spaces, not %q", host)
	}
	with, err := answersOf(inv.Context)
	if err != nil {
		return nil, err
	}
	submit, err := submitFlag(inv.String("submit"))
	if err != nil {
		return nil, err
	}
	i := &interview{
		inv: inv, term: inv.Terminal, cfg: cfg, sites: sites, argument: inv.Args().First(), user: inv.String("user"), entrance: inv.String("entrance"), host: inv.String("host"),
		scheduler: inv.String("scheduler"), app: app, session: session, named: inv.IsSet("session"), answers: with,
		submit: submit, job: inv.String("job"), probes: !inv.Bool("no-login") && !inv.Bool("print"),
	}
	i.looks = i.probes && inv.Interactive && !inv.Bool("no-look")
	i.findAliases()
	return i, nil
}

// makePlan asks everything.
func (i *interview) makePlan(ctx context.Context) (plan, error) {
	p := plan{app: i.app, submit: i.submit, adopts: i.job != ""}
	var err error
	if p.site, err = i.askSite(ctx); err != nil {
		return p, err
	}
	if p.ssh, err = i.askHost(ctx, p.site); err != nil {
		return p, err
	}
	p.host = i.hostName(p.site, p.ssh)
	if i.inConfig(p.host) {
		i.term.Say("[host.%s] is already in the config (%s) and stays as it is", p.host, i.cfg.Host(p.host).SSH)
		p.hostExists = true
	}
	if i.looks {
		if err := i.look(ctx, &p); err != nil {
			return p, err
		}
	}
	if p.session, err = i.askSession(ctx, p.host); err != nil {
		return p, err
	}
	p.job = cmp.Or(i.job, jobName(i.cfg, p.site, p.host, p.session))
	switch {
	case p.submit != "" || p.adopts:
		if len(i.answers) > 0 {
			return p, usagef("--with is for the jobs that come with tunctl, not for your own: leave it out, or leave out --submit and --job")
		}
		return p, nil
	case i.found != nil:
		return p, i.askFound(ctx, &p)
	}
	p.answers, err = i.askJob(ctx, p.site)
	return p, err
}

// submitFlag is a session's submit: a file of this computer with its whole path, since the
// agent runs in another folder.
func submitFlag(script string) (string, error) {
	if strings.HasPrefix(script, "builtin:") {
		return "", usagef("--submit takes a script of yours, not %q: --app names the jobs that come with tunctl", script)
	}
	file, ok := strings.CutPrefix(script, localPrefix)
	if !ok {
		return script, nil
	}
	whole, err := filepath.Abs(configs.LocalPath(file))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(whole); err != nil {
		return "", asUsage(err)
	}
	return localPrefix + whole, nil
}

// askSession finds an unused name.
func (i *interview) askSession(ctx context.Context, host string) (string, error) {
	name := i.session
	for n := 1; ; n++ {
		if _, taken := i.cfg.Session(name); !taken {
			if !i.named && n > 1 {
				i.term.Say("[session.%s] already exists, so this one is called %s. To change the first: `tunctl config edit`", i.session, name)
			}
			return name, nil
		}
		switch {
		case i.named && !i.term.Interactive:
			return "", usagef("session %q already exists in %s", name, i.cfg.Path)
		case i.named:
			text, err := i.ask(ctx, fmt.Sprintf("Session %q already exists. Another name: ", name))
			if err != nil {
				return "", err
			}
			if err := checkSessionName(text); err != nil {
				i.term.Say("%v", err)
				continue
			}
			name = text
		case n == 1:
			name = i.session + "-" + host
		default:
			name = fmt.Sprintf("%s-%s-%d", i.session, host, n)
		}
	}
}

// checkSessionName refuses a name that would need quotes after [session.
func checkSessionName(name string) error {
	if !plainName.MatchString(name) {
		return usagef("%q is not a valid session name: use letters, digits, '-' and '_'", name)
	}
	return nil
}

// askJob asks the site's questions. The config omits quiet questions whose answer is the
// default.
func (i *interview) askJob(ctx context.Context, s configs.Site) (map[string]string, error) {
	job := &configs.Job{App: i.app, Name: i.app, Site: s, Answers: i.answers}
	for _, q := range s.Questions {
		if _, given := job.Answers[q.Name]; given || q.Quiet {
			continue
		}
		if q.Kind == configs.AskQueue && i.term.Interactive {
			i.listQueues(s)
		}
		if err := i.askAnswer(ctx, job, q); err != nil {
			return nil, err
		}
	}
	if err := i.askOthers(ctx, job); err != nil {
		return nil, err
	}
	_, err := job.Script() // checks the answers given by flags, too
	return job.Answers, err
}

func (i *interview) listQueues(s configs.Site) {
	for _, q := range s.Queues {
		i.term.Say("  %-20s %s", q.Name, q.Limits())
	}
}

// askAnswer asks until the answer fits the question and the earlier answers.
func (i *interview) askAnswer(ctx context.Context, job *configs.Job, q configs.Question) error {
	for {
		text, err := i.answer(ctx, q, "--with "+q.Name+"=…")
		if err != nil || text == "" {
			return err
		}
		if err = job.Answer(q, text); err == nil {
			return nil
		}
		if !i.term.Interactive {
			return err
		}
		i.term.Say("%v", err)
		if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
			i.term.Say("%s", e.Hint)
		}
	}
}

// askOthers lists the questions that were not asked one by one, since most people keep their
// defaults, and reads the person's changes.
func (i *interview) askOthers(ctx context.Context, job *configs.Job) error {
	if !i.term.Interactive {
		return nil
	}
	others := map[string]configs.Question{}
	for _, q := range job.Questions() {
		if _, given := job.Answers[q.Name]; q.Quiet && !given {
			if len(others) == 0 {
				i.term.Say("Other settings:")
			}
			others[q.Name] = q
			line := fmt.Sprintf("  %-10s %s%s", q.Name, q.Ask, defaultOf(q))
			if width := i.term.Width(); width > 0 {
				line = strings.Join(term.Wrap(line, width-1, 13), "\n")
			}
			i.term.Say("%s", line)
		}
	}
	for len(others) > 0 {
		text, err := i.ask(ctx, "Change one with NAME=VALUE, or press Enter to continue: ")
		if err != nil || text == "" {
			return err
		}
		name, value, ok := strings.Cut(text, "=")
		q, known := others[strings.TrimSpace(name)]
		switch {
		case !ok || !known:
			i.term.Say("%q is not NAME=VALUE with one of the names above", text)
		default:
			if err := job.Answer(q, value); err != nil {
				i.term.Say("%v", err)
			}
		}
	}
	return nil
}

// answer asks until the answer is valid. Without a person it is the default, if there is one.
func (i *interview) answer(ctx context.Context, q configs.Question, flag string) (string, error) {
	if !i.term.Interactive {
		if q.Default == "" && q.Required {
			return "", i.needPerson(fmt.Sprintf("the answer to %q", q.Ask), "give it with "+flag)
		}
		return q.Default, nil
	}
	prompt := q.Ask + " "
	if q.Default != "" {
		prompt = fmt.Sprintf("%s [%s] ", q.Ask, q.Default)
	}
	for {
		text, err := i.ask(ctx, prompt)
		if err != nil {
			return "", err
		}
		if text == "" {
			text = q.Default
		}
		checked, err := q.Check(text)
		switch {
		case err == nil:
			return checked, nil
		case text == "":
			i.term.Say("This needs an answer.") // the question follows again
		default:
			i.term.Say("%v", err)
		}
	}
}

// ask shows a question, wrapped if it is longer than a line, and reads the answer.
func (i *interview) ask(ctx context.Context, prompt string) (string, error) {
	if width := i.term.Width(); width > 0 && term.TextWidth(prompt) >= width {
		lines := term.Wrap(strings.TrimSpace(prompt), width-1, 0)
		i.term.Say("%s", strings.Join(lines[:len(lines)-1], "\n"))
		prompt = lines[len(lines)-1] + " "
	}
	text, err := i.term.ReadLine(ctx, prompt, true)
	return strings.TrimSpace(text), err
}

// needPerson is the error for a question without a person to answer it.
func (i *interview) needPerson(what, hint string) error {
	if i.term.Interactive {
		return nil
	}
	return api.Errorf(api.CodeNeedsPerson, "%s is missing, and there is no terminal to ask for it", what).
		WithHint("%s", hint)
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return api.Errorf(api.CodeUsage, "%w", err)
}
