package main

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/tunnel"
)

// askSite finds the site by its name, by a login node, or for a host of no known site by its
// scheduler.
func (i *interview) askSite(ctx context.Context) (configs.Site, error) {
	if i.argument == "" && i.address != "" {
		return i.siteOf(ctx, i.address)
	}
	what := i.argument
	if what == "" {
		var err error
		if what, err = i.askCluster(ctx); err != nil {
			return configs.Site{}, err
		}
	}
	site, err := i.sites.Find(what)
	if err == nil {
		return site, nil
	}
	alias := slices.Contains(i.aliases, what)
	if site, ok := i.sites.WithEntrance(what); ok && i.entrance == "" && !alias {
		i.Say("%s is a login node of %s", what, site.Title)
		i.entrance = what
		return site, nil
	}
	if alias || i.inConfig(what) || strings.ContainsAny(what, ".@") || i.argument == "" {
		i.address = what
		return i.siteOf(ctx, what)
	}
	hint := hintOf(err)
	if near := suggest.Nearest(what, i.aliases); len(near) > 0 {
		hint = fmt.Sprintf("did you mean your ssh host %q? %s", near[0], hint)
	}
	return site, api.ReplaceHint(err, "%s; to use a host of that name: `tunctl init --host %s`", hint, what)
}

// askCluster asks for the name of a site or a host, which a list or a search may show first.
func (i *interview) askCluster(ctx context.Context) (string, error) {
	i.findHints(ctx)
	hint := "run `tunctl init SITE`, or `tunctl init HOST` for any other cluster; `tunctl sites` lists the sites"
	if len(i.hints) > 0 {
		hint = fmt.Sprintf("`tunctl init %s`? %s. `tunctl sites` lists the others", i.hints[0].site, i.hints[0].why)
	}
	if err := i.needPerson("the name of the cluster", hint); err != nil {
		return "", err
	}
	i.showHints()
	for {
		question := fmt.Sprintf("Which cluster? Its name, a word to search for, or any ssh host; ? lists all %d", len(i.sites))
		if i.likely != "" {
			question += " [" + i.likely + "]"
		}
		text, err := i.readLine(ctx, question+": ")
		if err != nil {
			return "", err
		}
		if what := i.parseChoice(cmp.Or(text, i.likely)); what != "" {
			return what, nil
		}
	}
}

// siteOf finds the site of a host that is not in the list.
func (i *interview) siteOf(ctx context.Context, host string) (configs.Site, error) {
	if site, ok := i.siteAt(ctx, host); ok {
		i.Say("%s is a login node of %s", host, site.Title)
		return site, nil
	}
	if known := i.cfg.Host(host); known.Site != "" {
		return i.sites.Find(known.Site)
	}
	scheduler := i.String("scheduler")
	if scheduler == "" && i.looks {
		return configs.Site{Verified: true}, nil // known after the login
	}
	scheduler, err := i.answer(ctx, schedulerQuestion(host), scheduler)
	if err != nil {
		return configs.Site{}, err
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
		i.Say("     and %d more", more)
	}
	for _, h := range i.hints {
		i.Say("Probably %s: %s.", i.Paint(term.Bold, h.site), h.why)
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
		i.Say("%3d) %-12s %s", len(i.shown), s.Name, s.Label())
	}
	if len(hosts) > 0 {
		i.Say("Hosts of your ssh config:")
	}
	for _, host := range hosts {
		i.shown = append(i.shown, host)
		i.Say("%3d) %s", len(i.shown), host)
	}
}

// parseChoice is the entry of that number in the last list, or the text itself: a site or a
// host. It is "", after a message or a list, if the text can be neither or is a mistyped site.
func (i *interview) parseChoice(text string) string {
	var names []string
	for _, s := range i.sites {
		names = append(names, s.Name)
	}
	names = append(names, i.aliases...)
	_, isEntrance := i.sites.WithEntrance(text)
	words, near := strings.Fields(text), suggest.Nearest(text, names)
	n, notNumber := strconv.Atoi(text)
	switch {
	case text == "?":
		i.list(i.sites, i.aliases)
		return ""
	case notNumber == nil && n >= 1 && n <= len(i.shown):
		return i.shown[n-1]
	case notNumber == nil:
		i.Say("No line above has the number %s.", text)
		return ""
	case text == "" || isEntrance || slices.Contains(names, text) || strings.Contains(text, "@"):
		return text
	}
	if found := i.sites.Search(words...); len(found) > 0 && !strings.Contains(text, ".") {
		i.list(found, nil)
		i.likely = ""
		if len(found) == 1 { // it is probably meant
			i.likely = found[0].Name
		}
		if len(words) == 1 {
			i.Say("(To use a host called %[1]s: USER@%[1]s)", text)
		}
		return ""
	}
	if len(words) > 1 {
		i.Say("%q is not a host: write NAME or USER@NAME, without spaces.", text)
		return ""
	}
	if len(near) > 0 {
		i.Say("no site %q: did you mean %q? (To use a host of that name: USER@%s)", text, near[0], text)
		return ""
	}
	return text
}

// askHost finds the login node and the person's user name there.
func (i *interview) askHost(ctx context.Context, s configs.Site) (string, error) {
	host, err := i.askEntrance(ctx, s)
	if err != nil {
		return "", err
	}
	if s.Before != "" {
		i.Say("%s", s.Before)
	}
	i.probe(ctx, s, host)
	if s.Login != "" {
		i.Say("Login: %s.", s.Login)
	}
	if text := certificateText(s.Certificate); text != "" {
		i.Say("Certificate: %s.", text)
	}
	if !s.Verified {
		i.Say("%s not verified as a whole: "+configs.GapsText, i.Paint(term.Yellow, "?"))
	}
	if len(s.Unsure) > 0 {
		i.Say("%s not verified: %s", i.Paint(term.Yellow, "?"), unverifiedText(s))
	}
	if strings.Contains(host, "@") || slices.Contains(i.aliases, host) || i.inConfig(host) {
		return host, nil // the user name is known
	}
	if alias := i.aliasOf(ctx, host); alias != "" && i.String("user") == "" {
		i.Say("%s is in your ssh config as %s", host, alias)
		return alias, nil
	}
	q := configs.Question{Name: "user", Ask: "Your user name on the cluster?", Kind: configs.AskWord, Required: true}
	if u, err := user.Current(); err == nil && i.Interactive {
		if _, err := q.Check(u.Username); err == nil {
			q.Default = u.Username
		}
	}
	name, err := i.answer(ctx, q, i.String("user"))
	return name + "@" + host, err
}

func (i *interview) askEntrance(ctx context.Context, s configs.Site) (string, error) {
	switch {
	case i.address != "":
		return i.address, nil
	case len(s.Entrances) == 1:
		return s.Entrances[0].Host, nil
	case len(s.Entrances) == 0:
		if s.Portal != "" {
			i.Say("tunctl knows the name of no login node of %s; its portal is %s", s.Title, s.Portal)
		}
		q := configs.Question{Name: "host", Kind: configs.AskWord, Required: true, Ask: "The address of the login node, or a host of your ssh config?"}
		return i.answer(ctx, q, "")
	}
	q := configs.Question{Name: "entrance", Kind: configs.AskChoice, Required: true, Default: s.Entrances[0].Name, Ask: "Which login node?"}
	for _, e := range s.Entrances {
		q.Choices = append(q.Choices, e.Name)
		if i.entrance == "" && i.Interactive {
			i.Say("  %-10s %-28s %s", e.Name, e.Host, e.About)
		}
	}
	name, err := i.answer(ctx, q, i.entrance)
	if err != nil {
		return "", err
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
	if !i.probes {
		return
	}
	switch probe := s.ProbeAt(i.resolve(ctx, host)); {
	case probe == "":
	case tunnel.Reachable(ctx, probe):
		i.Say("%s %s responds", i.Paint(term.Green, "✓"), probe)
	default:
		i.Say("%s %s does not respond from this network", i.Paint(term.Yellow, "!"), probe)
	}
}
