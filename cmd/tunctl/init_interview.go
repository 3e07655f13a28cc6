package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// interview gets the plan of `tunctl init` from the flags, or from the person.
type interview struct {
	*invocation
	plan
	cfg      *configs.Config
	sites    configs.Sites
	argument string // a site or a host
	address  string // of the login node, or its ssh alias
	entrance string
	probes   bool
	looks    bool     // logs in first, and looks for answers on the host
	looked   bool     // and found is the result
	found    api.Look // empty if it did not look
	aliases  []string
	hints    []siteHint
	shown    []string // the last list with numbers
	likely   string   // the site that an empty answer means
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
	submit, err := findScript(inv.String("submit"))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(submit, "builtin:") {
		return nil, usagef("--submit takes a script of yours, not %q: --app names the jobs that come with tunctl", submit)
	}
	i := &interview{
		invocation: inv, cfg: cfg, sites: sites,
		argument: inv.Args().First(), address: inv.String("host"), entrance: inv.String("entrance"),
		plan: plan{
			job:     configs.Job{App: app, Name: app, Answers: with},
			session: session, submit: submit, jobName: inv.String("job"), adopts: inv.String("job") != "",
		},
		probes: inv.Interactive && !inv.Bool("no-login") && !inv.Bool("print"),
	}
	i.looks = i.probes && !inv.Bool("no-look")
	i.findAliases()
	return i, nil
}

// run asks everything.
func (i *interview) run(ctx context.Context) error {
	var err error
	if i.job.Site, err = i.askSite(ctx); err != nil {
		return err
	}
	if i.ssh, err = i.askHost(ctx, i.job.Site); err != nil {
		return err
	}
	i.host = i.hostName(i.job.Site, i.ssh)
	if i.inConfig(i.host) {
		i.Say("[host.%s] is already in the config (%s) and stays as it is", i.host, i.cfg.Host(i.host).SSH)
		i.hostExists = true
	}
	if i.looks {
		if err := i.look(ctx); err != nil {
			return err
		}
	}
	if i.session, err = i.askSession(ctx); err != nil {
		return err
	}
	i.jobName = cmp.Or(i.jobName, jobName(i.cfg, i.job.Site, i.host, i.session))
	if i.ownsJob() {
		if len(i.job.Answers) > 0 {
			return usagef("--with is for the jobs that come with tunctl, not for your own: leave it out, or leave out --submit and --job")
		}
		return nil
	}
	return i.askJob(ctx)
}

// askSession finds an unused name.
func (i *interview) askSession(ctx context.Context) (string, error) {
	taken := func(name string) bool { return slices.Contains(configuredSessions(i.cfg), name) }
	wanted := i.session
	switch {
	case !taken(wanted):
		return wanted, nil
	case !i.IsSet("session"):
		name := wanted + "-" + i.host
		for n := 2; taken(name); n++ {
			name = fmt.Sprintf("%s-%s-%d", wanted, i.host, n)
		}
		i.Say("[session.%s] already exists, so this one is called %s. To change the first: `tunctl config edit`", wanted, name)
		return name, nil
	case !i.Interactive:
		return "", usagef("session %q already exists in %s", wanted, i.cfg.Path)
	}
	var name string
	q := configs.Question{Ask: fmt.Sprintf("Session %q already exists. Another name:", wanted)}
	err := i.ask(ctx, q, "--session", nil, func(text string) error {
		if name = text; taken(name) {
			return usagef("session %q already exists", name)
		}
		return checkSessionName(name)
	})
	return name, err
}

// checkSessionName refuses a name that would need quotes after [session.
func checkSessionName(name string) error {
	if !plainName.MatchString(name) {
		return usagef("%q is not a valid session name: use letters, digits, '-' and '_'", name)
	}
	return nil
}

// askJob asks the site's questions, in their order. One with a single offer is not asked, and
// neither is a quiet one without: most people keep its default. After a look at a host of no
// known site, all without offers are quiet.
func (i *interview) askJob(ctx context.Context) error {
	if i.looked {
		if err := i.askSoftware(ctx); err != nil || i.ownsJob() {
			return err // a script of the person's own has its answers
		}
	}
	site := i.job.Site
	brief, asked := i.looked && site.Generic(), false
	for _, q := range site.Questions {
		offers := i.offers(q)
		_, given := i.job.Answers[q.Name]
		switch {
		case given || len(offers) == 0 && (q.Quiet || brief):
		case len(offers) == 1:
			i.Say("%s: %s (%s)", q.Name, offers[0].value, offers[0].source)
			if err := i.job.Answer(q, offers[0].value); err != nil {
				return err
			}
		default:
			if brief && !asked {
				i.showSettings(" Type NAME=VALUE at a question to change one, as in hours=8.")
			}
			asked = true
			if err := i.askSetting(ctx, q, offers); err != nil {
				return err
			}
		}
		if brief && isPartition(q) {
			i.fitPartition(i.job.Answers[q.Name])
		}
	}
	if i.Interactive && (!brief || !asked) {
		if err := i.askChanges(ctx, brief); err != nil {
			return err
		}
	}
	_, err := i.job.Script() // checks the answers given by flags, too
	return err
}

// askSetting asks until the answer fits the question and the earlier answers.
func (i *interview) askSetting(ctx context.Context, q configs.Question, offers []offer) error {
	if len(offers) > 0 {
		ask, _, _ := strings.Cut(q.Ask, "?") // without what an empty answer means
		q.Ask = ask + "?"
	} else if q.Kind == configs.AskQueue && i.Interactive {
		for _, queue := range i.job.Site.Queues {
			i.Say("  %-20s %s", queue.Name, queue.Limits())
		}
	}
	return i.ask(ctx, q, "--with "+q.Name+"=…", offers, func(text string) error {
		if text == "" && !q.Required {
			return nil
		}
		return i.job.Answer(q, text)
	})
}

// askChanges shows the settings that were not asked one by one, and reads the person's changes.
func (i *interview) askChanges(ctx context.Context, brief bool) error {
	if brief {
		i.showSettings("")
	} else if !i.listSettings() {
		return nil
	}
	return i.ask(ctx, configs.Question{Ask: "Change one with NAME=VALUE, or press Enter to continue:"}, "--with", nil, func(text string) error {
		if text != "" {
			return fmt.Errorf("%q is not NAME=VALUE with one of the names above", text)
		}
		return nil
	})
}

// showSettings shows the settings in one line, and how to change them.
func (i *interview) showSettings(how string) {
	var list []string
	for _, q := range i.job.Questions() {
		value, given := i.job.Answers[q.Name]
		if !given {
			value = q.Default
		}
		if value != "" && !isAccount(q) && !isPartition(q) {
			list = append(list, q.Name+"="+value)
		}
	}
	if len(list) > 0 {
		i.Say("Settings: %s.%s", strings.Join(list, " "), how)
	}
}

// listSettings explains the quiet questions without an answer, and reports whether there are any.
func (i *interview) listSettings() bool {
	listed := false
	for _, q := range i.job.Questions() {
		if _, given := i.job.Answers[q.Name]; !q.Quiet || given {
			continue
		}
		if !listed {
			i.Say("Other settings:")
		}
		listed = true
		i.sayWrapped(fmt.Sprintf("  %-10s %s%s", q.Name, q.Ask, defaultOf(q)), 13)
	}
	return listed
}

// setting is a question of the job by its name.
func (i *interview) setting(name string) (configs.Question, bool) {
	all := i.job.Questions()
	n := slices.IndexFunc(all, func(q configs.Question) bool { return q.Name == name })
	if n < 0 {
		return configs.Question{}, false
	}
	return all[n], true
}

// assignment matches NAME=VALUE, which is neither an account, a partition nor a path.
var assignment = regexp.MustCompile(`^([a-z][a-z0-9_]*)\s*=(.*)$`)

// changeSetting changes a setting of the job by NAME=VALUE, and reports whether the text is
// one. The settings are known with the site.
func (i *interview) changeSetting(text string) bool {
	words := assignment.FindStringSubmatch(text)
	if words == nil || i.job.Site.Name == "" {
		return false
	}
	q, known := i.setting(words[1])
	if !known {
		var names []string
		for _, q := range i.job.Questions() {
			names = append(names, q.Name)
		}
		i.Say("%q is not a setting of the job; the settings are: %s", text, strings.Join(names, ", "))
	} else if err := i.job.Answer(q, words[2]); err != nil {
		i.Say("%v", err)
	} else {
		i.Say("%s = %s", q.Name, i.job.Answers[q.Name])
	}
	return true
}

// offer is a numbered answer.
type offer struct {
	value  string
	label  string // what is shown for the value, if not the value
	about  string
	source string // where it was found
}

// maxOffers is how many answers are shown for one question.
const maxOffers = 12

// ask asks a question until take accepts the answer. Enter is the first offer or, without
// offers, the default. NAME=VALUE changes a setting of the job, and the question stays open.
// Without a person the answer is the default, if there is one.
func (i *interview) ask(ctx context.Context, q configs.Question, flag string, offers []offer, take func(answer string) error) error {
	if !i.Interactive {
		if q.Default == "" && q.Required {
			return i.needPerson(fmt.Sprintf("the answer to %q", q.Ask), "give it with "+flag)
		}
		return take(q.Default)
	}
	prompt := q.Ask + " "
	if q.Default != "" {
		prompt = fmt.Sprintf("%s [%s] ", q.Ask, q.Default)
	}
	if len(offers) > 0 {
		i.Say("%s", q.Ask)
		i.showOffers(offers)
		prompt = "A number, or any other answer [1]: "
	}
	for {
		text, err := i.readLine(ctx, prompt)
		if err != nil {
			return err
		}
		n, notNumber := strconv.Atoi(cmp.Or(text, "1"))
		switch {
		case i.changeSetting(text):
			continue
		case len(offers) == 0:
			text = cmp.Or(text, q.Default)
		case notNumber == nil && n >= 1 && n <= min(len(offers), maxOffers):
			text = offers[n-1].value
		case notNumber == nil:
			i.Say("No line above has the number %s.", text)
			continue
		case text == "?":
			i.Say("Type the number of a line, or press Enter for the first; Ctrl-C stops.")
			continue
		}
		switch err := take(text); {
		case err == nil:
			return nil
		case text == "":
			i.Say("This needs an answer.") // the question follows again
		default:
			i.Say("%v", err)
			if hint := hintOf(err); hint != "" {
				i.Say("%s", hint)
			}
		}
	}
}

// answer is the answer to a question: as given, by the flag of its name, or as the person types.
func (i *interview) answer(ctx context.Context, q configs.Question, given string) (answer string, err error) {
	if given != "" {
		answer, err = q.Check(given)
		return answer, asUsage(err)
	}
	err = i.ask(ctx, q, "--"+q.Name, nil, func(text string) (err error) {
		answer, err = q.Check(text)
		return err
	})
	return answer, err
}

// showOffers lists the first answers with their numbers.
func (i *interview) showOffers(offers []offer) {
	shown := offers[:min(len(offers), maxOffers)]
	width := 0
	for _, o := range shown {
		width = max(width, term.TextWidth(cmp.Or(o.label, o.value)))
	}
	for n, o := range shown {
		about := o.about
		if o.source != "" {
			about = strings.TrimLeft(about+" ("+o.source+")", " ")
		}
		i.sayWrapped(fmt.Sprintf("%3d) %s  %s", n+1, term.Pad(cmp.Or(o.label, o.value), width), about), 7)
	}
	if more := len(offers) - len(shown); more > 0 {
		i.Say("     and %d more", more)
	}
}

// sayWrapped says a line, with an indent where it is longer than the terminal is wide.
func (i *interview) sayWrapped(line string, indent int) {
	if width := i.Width(); width > 0 {
		line = strings.Join(term.Wrap(line, width-1, indent), "\n")
	}
	i.Say("%s", line)
}

// readLine shows a question, wrapped if it is longer than a line, and reads the answer.
func (i *interview) readLine(ctx context.Context, prompt string) (string, error) {
	if width := i.Width(); width > 0 && term.TextWidth(prompt) >= width {
		lines := term.Wrap(strings.TrimSpace(prompt), width-1, 0)
		i.Say("%s", strings.Join(lines[:len(lines)-1], "\n"))
		prompt = lines[len(lines)-1] + " "
	}
	text, err := i.ReadLine(ctx, prompt, true)
	return strings.TrimSpace(text), err
}

// needPerson is the error for a question without a person to answer it.
func (i *interview) needPerson(what, hint string) error {
	if i.Interactive {
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
