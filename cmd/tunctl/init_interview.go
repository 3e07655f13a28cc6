package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/tunnel"
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
		return nil, &api.Error{
			Code: api.CodeUsage, Message: "init cannot know the command to run",
			Hint: "add a session with submit = \"builtin:command\" and command = \"…\" to the config: `tunctl config edit`",
		}
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

// askSite finds the site by its name or its number in a list, or for a host of no known site
// by its scheduler.
func (i *interview) askSite(ctx context.Context) (configs.Site, error) {
	what := i.argument
	if what == "" && i.host != "" {
		return i.askScheduler(ctx, i.host)
	}
	if what == "" {
		i.findHints(ctx)
		hint := "run `tunctl init SITE`, or `tunctl init HOST` for any other cluster; `tunctl sites` lists the sites"
		if len(i.hints) > 0 {
			hint = fmt.Sprintf("`tunctl init %s`? %s. `tunctl sites` lists the others", i.hints[0].site, i.hints[0].why)
		}
		if err := i.needPerson("the name of the cluster", hint); err != nil {
			return configs.Site{}, err
		}
		i.showHints()
	}
	for {
		if what == "" {
			question := fmt.Sprintf("Which cluster? Its name, a word to search for, or any ssh host; ? lists all %d", len(i.sites))
			if i.likely != "" {
				question += " [" + i.likely + "]"
			}
			text, err := i.ask(ctx, question+": ")
			if err != nil {
				return configs.Site{}, err
			}
			what = i.parseChoice(cmp.Or(text, i.likely))
			continue
		}
		site, err := i.sites.Find(what)
		if err == nil {
			return site, nil
		}
		alias := slices.Contains(i.aliases, what)
		if site, ok := i.sites.WithEntrance(what); ok && i.entrance == "" && !alias {
			i.term.Say("%s is a login node of %s", what, site.Title)
			i.entrance = what
			return site, nil
		}
		if alias || i.inConfig(what) || strings.ContainsAny(what, ".@") || i.argument == "" {
			i.host = what
			return i.askScheduler(ctx, what)
		}
		if e, ok := errors.AsType[*api.Error](err); ok {
			if near := suggest.Nearest(what, i.aliases); len(near) > 0 {
				e.Hint = fmt.Sprintf("did you mean your ssh host %q? %s", near[0], e.Hint)
			}
			e.Hint += fmt.Sprintf("; to use a host of that name: `tunctl init --host %s`", what)
		}
		return site, err
	}
}

// askScheduler finds the site of a host that is not in the list.
func (i *interview) askScheduler(ctx context.Context, host string) (configs.Site, error) {
	if site, ok := i.siteAt(ctx, host); ok {
		i.term.Say("%s is a login node of %s", host, site.Title)
		return site, nil
	}
	if known := i.cfg.Host(host); known.Site != "" {
		return i.sites.Find(known.Site)
	}
	scheduler := i.scheduler
	if scheduler == "" && i.looks {
		return configs.Site{Verified: true}, nil // known after the login
	}
	if scheduler == "" {
		var err error
		if scheduler, err = i.answer(ctx, schedulerQuestion(host), "--scheduler"); err != nil {
			return configs.Site{}, err
		}
	}
	return i.sites.ForHost(configs.Host{}, scheduler)
}

func schedulerQuestion(host string) configs.Question {
	return configs.Question{
		Name: "scheduler", Ask: "Which scheduler does " + host + " use: " + configs.SchedulerChoice() + "?",
		Kind: configs.AskChoice, Choices: configs.Schedulers(), Default: "slurm", Required: true,
	}
}

// inConfig reports whether the config has a host of that name.
func (i *interview) inConfig(host string) bool {
	return slices.ContainsFunc(i.cfg.Hosts, func(h configs.Host) bool { return h.Name == host })
}

// maxHostsShown is how many hosts of the ssh config are shown unasked.
const maxHostsShown = 10

// showHints shows the sites that the person probably uses and some hosts of the ssh config. The
// list of all sites is long, and shown only when asked for.
func (i *interview) showHints() {
	hosts := i.aliases[:min(len(i.aliases), maxHostsShown)]
	i.list(nil, hosts)
	if more := len(i.aliases) - len(hosts); more > 0 {
		i.term.Say("     and %d more", more)
	}
	for _, h := range i.hints {
		i.term.Say("Probably %s: %s.", i.term.Paint(term.Bold, h.site), h.why)
	}
	if len(i.hints) == 1 {
		i.likely = i.hints[0].site
	}
}

// list shows sites and hosts with numbers.
func (i *interview) list(sites configs.Sites, hosts []string) {
	i.shown = nil
	for _, s := range sites {
		i.shown = append(i.shown, s.Name)
		i.term.Say("%3d) %-12s %s", len(i.shown), s.Name, s.Label())
	}
	if len(hosts) > 0 {
		i.term.Say("Hosts of your ssh config:")
	}
	for _, host := range hosts {
		i.shown = append(i.shown, host)
		i.term.Say("%3d) %s", len(i.shown), host)
	}
}

// listMatches lists the sites that a text is about, and reports whether there are any. A single
// one is probably meant.
func (i *interview) listMatches(text string) bool {
	words := strings.Fields(text)
	found := i.sites.Search(words...)
	if len(found) == 0 {
		return false
	}
	i.list(found, nil)
	i.likely = ""
	if len(found) == 1 {
		i.likely = found[0].Name
	}
	if len(words) == 1 {
		i.term.Say("(To use a host called %[1]s: USER@%[1]s)", words[0])
	}
	return true
}

// parseChoice is the entry of that number in the last list, or the text itself: a site or a
// host. It is "", after a message, if the text can be neither or is a mistyped site.
func (i *interview) parseChoice(text string) string {
	names := i.names()
	near := suggest.Nearest(text, names)
	_, isEntrance := i.sites.WithEntrance(text)
	n, err := strconv.Atoi(text)
	switch {
	case text == "?":
		i.list(i.sites, i.aliases)
		return ""
	case err == nil && n >= 1 && n <= len(i.shown):
		return i.shown[n-1]
	case err == nil:
		i.term.Say("No line above has the number %s.", text)
		return ""
	case text == "" || isEntrance || slices.Contains(names, text) || strings.Contains(text, "@"):
		return text
	case !strings.Contains(text, ".") && i.listMatches(text):
		return ""
	case strings.ContainsAny(text, " \t"):
		i.term.Say("%q is not a host: write NAME or USER@NAME, without spaces.", text)
		return ""
	case len(near) > 0:
		i.term.Say("no site %q: did you mean %q? (To use a host of that name: USER@%s)", text, near[0], text)
		return ""
	}
	return text
}

// names are those of all sites and of the hosts of the ssh config.
func (i *interview) names() []string {
	names := make([]string, 0, len(i.sites)+len(i.aliases))
	for _, s := range i.sites {
		names = append(names, s.Name)
	}
	return append(names, i.aliases...)
}

// askHost finds the login node and the person's user name there.
func (i *interview) askHost(ctx context.Context, s configs.Site) (string, error) {
	host, err := i.askEntrance(ctx, s)
	if err != nil {
		return "", err
	}
	if s.Before != "" {
		i.term.Say("%s", s.Before)
	}
	i.probe(ctx, s, host)
	if s.Login != "" {
		i.term.Say("Login: %s.", s.Login)
	}
	if text := certificateText(s.Certificate); text != "" {
		i.term.Say("Certificate: %s.", text)
	}
	if !s.Verified {
		i.term.Say("%s not verified as a whole: "+configs.GapsText, i.term.Paint(term.Yellow, "?"))
	}
	if len(s.Unsure) > 0 {
		i.term.Say("%s not verified: %s", i.term.Paint(term.Yellow, "?"), unverifiedText(s))
	}
	if strings.Contains(host, "@") || slices.Contains(i.aliases, host) || i.inConfig(host) {
		return host, nil // the user name is known
	}
	if alias := i.aliasOf(ctx, host); alias != "" && i.user == "" {
		i.term.Say("%s is in your ssh config as %s", host, alias)
		return alias, nil
	}
	q := configs.Question{Name: "user", Ask: "Your user name on the cluster?", Kind: configs.AskWord, Required: true, Default: i.user}
	if i.user != "" {
		name, err := q.Check(i.user)
		return name + "@" + host, asUsage(err)
	}
	if u, err := user.Current(); err == nil && i.term.Interactive {
		if _, err := q.Check(u.Username); err == nil {
			q.Default = u.Username
		}
	}
	name, err := i.answer(ctx, q, "--user")
	return name + "@" + host, err
}

func (i *interview) askEntrance(ctx context.Context, s configs.Site) (string, error) {
	switch {
	case i.host != "":
		return i.host, nil
	case len(s.Entrances) == 1:
		return s.Entrances[0].Host, nil
	case len(s.Entrances) == 0:
		if s.Portal != "" {
			i.term.Say("tunctl knows the name of no login node of %s; its portal is %s", s.Title, s.Portal)
		}
		return i.answer(ctx, configs.Question{Name: "host", Ask: "The address of the login node, or a host of your ssh config?", Kind: configs.AskWord, Required: true}, "--host")
	}
	q := configs.Question{Name: "entrance", Kind: configs.AskChoice, Required: true, Default: s.Entrances[0].Name, Ask: "Which login node?"}
	for _, e := range s.Entrances {
		q.Choices = append(q.Choices, e.Name)
		if i.entrance == "" && i.term.Interactive {
			i.term.Say("  %-10s %-28s %s", e.Name, e.Host, e.About)
		}
	}
	name := i.entrance
	if name == "" {
		var err error
		if name, err = i.answer(ctx, q, "--entrance"); err != nil {
			return "", err
		}
	}
	if _, err := q.Check(name); err != nil {
		return "", asUsage(err)
	}
	return s.Entrances[slices.Index(q.Choices, name)].Host, nil
}

// unverifiedText lists the topics of a site that are not verified, and where to ask: an entry
// begins with its topic.
func unverifiedText(s configs.Site) string {
	var topics []string
	for _, u := range s.Unsure {
		what, _, _ := strings.Cut(u, ":")
		topics = append(topics, topicText(what))
	}
	text := fmt.Sprintf("%s (see `tunctl sites %s`", strings.Join(topics, ", "), s.Name)
	if len(s.Help) > 0 {
		text += " and " + s.Help[0]
	}
	return text + ")"
}

// probe says whether the network is ready for SSH: without a VPN that the site requires, an
// address does not respond.
func (i *interview) probe(ctx context.Context, s configs.Site, host string) {
	if !i.probes || !i.term.Interactive {
		return
	}
	switch probe := s.ProbeAt(i.address(ctx, host)); {
	case probe == "":
	case tunnel.Reachable(ctx, probe):
		i.term.Say("%s %s responds", i.term.Paint(term.Green, "✓"), probe)
	default:
		i.term.Say("%s %s does not respond from this network", i.term.Paint(term.Yellow, "!"), probe)
	}
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
	return &api.Error{Code: api.CodeNeedsPerson, Message: what + " is missing, and there is no terminal to ask for it", Hint: hint}
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &api.Error{Code: api.CodeUsage, Message: err.Error(), Err: err}
}
