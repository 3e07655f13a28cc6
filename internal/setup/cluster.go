package setup

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
	"tunctl/internal/lists"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/tunnel"
)

// askSite finds the site by its name, by a login node, or for a host of no known site by its
// scheduler.
func (st *setup) askSite(ctx context.Context) (configs.Site, error) {
	if st.Argument == "" && st.Host != "" {
		return st.siteOf(ctx, st.Host)
	}
	what := st.Argument
	if what == "" {
		var err error
		if what, err = (&clusterQuestion{asker: st.asker, sites: st.Sites, hosts: st.hosts}).ask(ctx); err != nil {
			return configs.Site{}, err
		}
	}
	site, err := st.Sites.Find(what)
	if err == nil {
		return site, nil
	}
	alias := slices.Contains(st.hosts.aliases, what)
	if site, ok := st.Sites.WithEntrance(what); ok && st.Entrance == "" && !alias {
		st.Say("%s is a login node of %s", what, site.Title)
		st.Entrance = what
		return site, nil
	}
	if alias || st.inConfig(what) || strings.ContainsAny(what, ".@") || st.Argument == "" {
		st.Host = what
		return st.siteOf(ctx, what)
	}
	hint := api.HintOf(err)
	if near := suggest.Nearest(what, st.hosts.aliases); len(near) > 0 {
		hint = fmt.Sprintf("did you mean your ssh host %q? %s", near[0], hint)
	}
	return site, api.ReplaceHint(err, "%s; to use a host of that name: `tunctl init --host %s`", hint, what)
}

// siteOf finds the site of a host that is not in the list.
func (st *setup) siteOf(ctx context.Context, host string) (configs.Site, error) {
	if err := st.checkHost(host); err != nil {
		return configs.Site{}, err
	}
	if site, ok := st.hosts.siteAt(ctx, host); ok {
		st.Say("%s is a login node of %s", host, site.Title)
		return site, nil
	}
	if known := st.Config.Host(host); known.Site != "" {
		return st.Sites.Find(known.Site)
	}
	scheduler := st.Scheduler
	if scheduler == "" && st.looks {
		return configs.Site{Verified: true}, nil // known after the login
	}
	scheduler, err := st.answer(ctx, schedulerQuestion(host), scheduler)
	if err != nil {
		return configs.Site{}, err
	}
	return st.Sites.ForHost(configs.Host{}, scheduler)
}

func schedulerQuestion(host string) configs.Question {
	return configs.Question{
		Name: "scheduler", Ask: "Which scheduler does " + host + " use: " + configs.SchedulerChoice() + "?",
		Kind: configs.AskChoice, Choices: configs.Schedulers(), Default: "slurm", Required: true,
	}
}

// inConfig reports whether the config has a host of that name.
func (st *setup) inConfig(host string) bool {
	return slices.ContainsFunc(st.Config.Hosts, func(h configs.Host) bool { return h.Name == host })
}

// knownHost is the host of the config that is meant: by its name or address, or as the only one
// of the site.
func (st *setup) knownHost(site configs.Site) (configs.Host, bool) {
	if st.User != "" || st.Entrance != "" {
		return configs.Host{}, false // it may be another
	}
	hosts := slices.DeleteFunc(slices.Clone(st.Config.Hosts), func(h configs.Host) bool {
		if st.Host != "" {
			return h.Name != st.Host && h.SSH != st.Host
		}
		return h.Site == "" || h.Site != site.Name
	})
	if len(hosts) != 1 {
		return configs.Host{}, false
	}
	return hosts[0], true
}

// askSameHost lets the user change the destination of a host that the config has.
func (st *setup) askSameHost(ctx context.Context) error {
	p := &st.plan
	st.Say("[host.%s] is already in the config: %s", p.host, p.configured)
	q := configs.Question{Ask: "Press Enter to use it, or type another USER@HOST to change it:"}
	return st.ask(ctx, q, "--user", nil, func(text string) error {
		p.ssh = cmp.Or(text, p.configured)
		return st.checkHost(text)
	})
}

// checkHost refuses what can be no host. ssh reads a number as an address: 2 as 0.0.0.2.
func (st *setup) checkHost(text string) error {
	_, notNumber := strconv.ParseUint(addressOf(text), 0, 64)
	if strings.ContainsAny(text, " \t") || notNumber == nil && !slices.Contains(st.hosts.aliases, text) {
		return api.Errorf(api.CodeUsage, "%q is not a host: write NAME or USER@NAME, without spaces", text)
	}
	return nil
}

// askHost finds the login node and the user's login there.
func (st *setup) askHost(ctx context.Context, s configs.Site) (string, error) {
	host, err := st.askEntrance(ctx, s)
	if err != nil {
		return "", err
	}
	if s.Before != "" {
		st.Say("%s", s.Before)
	}
	st.probe(ctx, s, host)
	if s.Login != "" {
		st.Say("Login: %s.", s.Login)
	}
	if text := s.Certificate.Text(); text != "" {
		st.Say("Certificate: %s.", text)
	}
	if !s.Verified {
		st.Say("%s not verified as a whole: "+configs.GapsText, st.Paint(term.Yellow, "?"))
	}
	if len(s.Unsure) > 0 {
		st.Say("%s not verified: %s", st.Paint(term.Yellow, "?"), unverifiedText(s))
	}
	if strings.Contains(host, "@") || slices.Contains(st.hosts.aliases, host) || st.inConfig(host) {
		return host, nil // the user name is known
	}
	if alias := st.hosts.aliasOf(ctx, host); alias != "" && st.User == "" {
		st.Say("%s is in your ssh config as %s", host, alias)
		return alias, nil
	}
	q := configs.Question{Name: "user", Ask: "Your user name on the cluster?", Kind: configs.AskWord, Required: true}
	if u, err := user.Current(); err == nil && st.Interactive {
		if _, err := q.Check(u.Username); err == nil {
			q.Default = u.Username
		}
	}
	name, err := st.answer(ctx, q, st.User)
	return name + "@" + host, err
}

func (st *setup) askEntrance(ctx context.Context, s configs.Site) (string, error) {
	switch {
	case st.Host != "":
		return st.Host, st.checkHost(st.Host)
	case len(s.Entrances) == 1:
		return s.Entrances[0].Host, nil
	case len(s.Entrances) == 0:
		if s.Portal != "" {
			st.Say("tunctl knows the name of no login node of %s; its portal is %s", s.Title, s.Portal)
		}
		q := configs.Question{Name: "host", Kind: configs.AskWord, Required: true, Ask: "The address of the login node, or a host of your ssh config?"}
		return st.answer(ctx, q, "")
	}
	q := configs.Question{Name: "entrance", Kind: configs.AskChoice, Required: true, Default: s.Entrances[0].Name, Ask: "Which login node?"}
	for _, e := range s.Entrances {
		q.Choices = append(q.Choices, e.Name)
		if st.Entrance == "" && st.Interactive {
			st.Say("  %-10s %-28s %s", e.Name, e.Host, e.About)
		}
	}
	name, err := st.answer(ctx, q, st.Entrance)
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
		topics = append(topics, configs.TopicText(what))
	}
	text := fmt.Sprintf("%s (see `tunctl sites %s`", strings.Join(topics, ", "), s.Name)
	if len(s.Help) > 0 {
		text += " and " + s.Help[0]
	}
	return text + ")"
}

// probe says whether the network is ready for SSH: without a VPN that the site requires, an
// address does not respond.
func (st *setup) probe(ctx context.Context, s configs.Site, host string) {
	if !st.Interactive || !st.logsIn {
		return
	}
	switch probe := s.ProbeAt(st.hosts.resolve(ctx, host)); {
	case probe == "":
	case tunnel.Reachable(ctx, probe):
		st.Say("%s %s responds", st.Paint(term.Green, "✓"), probe)
	default:
		st.Say("%s %s does not respond from this network", st.Paint(term.Yellow, "!"), probe)
	}
}

// clusterQuestion asks which cluster is meant.
type clusterQuestion struct {
	*asker
	sites  configs.Sites
	hosts  *sshHosts
	shown  []string // the last list with numbers
	likely string   // the site that an empty answer means
}

// ask asks for the name of a site or a host, which a list or a search may show first.
func (c *clusterQuestion) ask(ctx context.Context) (string, error) {
	c.hosts.findHints(ctx)
	hint := "run `tunctl init SITE`, or `tunctl init HOST` for any other cluster; `tunctl sites` lists the sites"
	if len(c.hosts.hints) > 0 {
		hint = fmt.Sprintf("`tunctl init %s`? %s. `tunctl sites` lists the others", c.hosts.hints[0].site, c.hosts.hints[0].why)
	}
	if err := c.needUser("the name of the cluster", hint); err != nil {
		return "", err
	}
	c.showHints()
	for {
		question := "Which cluster? Its name, a word to search for, or any ssh host; ? lists all"
		if c.likely != "" {
			question += " [" + c.likely + "]"
		}
		text, err := c.readLine(ctx, question+": ")
		if err != nil {
			return "", err
		}
		if what := c.parseChoice(cmp.Or(text, c.likely)); what != "" {
			return what, nil
		}
	}
}

// maxHostsShown is how many hosts of the ssh config are shown unasked.
const maxHostsShown = 10

// showHints shows the sites that the user probably uses and some hosts of the ssh config. The
// list of all sites is long, and shown only when asked for.
func (c *clusterQuestion) showHints() {
	hosts := c.hosts.aliases[:min(len(c.hosts.aliases), maxHostsShown)]
	c.list(nil, hosts)
	if more := len(c.hosts.aliases) - len(hosts); more > 0 {
		c.Say("     and %d more", more)
	}
	for _, h := range c.hosts.hints {
		c.Say("Probably %s: %s.", c.Paint(term.Bold, h.site), h.why)
	}
	if len(c.hosts.hints) == 1 {
		c.likely = c.hosts.hints[0].site
	}
}

// list shows sites and hosts with numbers.
func (c *clusterQuestion) list(sites configs.Sites, hosts []string) {
	c.shown = nil
	for _, s := range sites {
		c.shown = append(c.shown, s.Name)
		c.Say("%3d) %-12s %s", len(c.shown), s.Name, s.Label())
	}
	if len(hosts) > 0 {
		c.Say("Hosts of your ssh config:")
	}
	for _, host := range hosts {
		c.shown = append(c.shown, host)
		c.Say("%3d) %s", len(c.shown), host)
	}
}

// parseChoice is the entry of that number in the last list, or the text itself: a site or a
// host. It is "", after a message or a list, if the text can be neither or is a mistyped site.
func (c *clusterQuestion) parseChoice(text string) string {
	names := append(lists.Map(c.sites, func(s configs.Site) string { return s.Name }), c.hosts.aliases...)
	_, isEntrance := c.sites.WithEntrance(text)
	words, near := strings.Fields(text), suggest.Nearest(text, names)
	n, notNumber := strconv.Atoi(text)
	switch {
	case text == "?":
		c.list(c.sites, c.hosts.aliases)
		return ""
	case notNumber == nil && n >= 1 && n <= len(c.shown):
		return c.shown[n-1]
	case notNumber == nil:
		c.Say("No line above has the number %s.", text)
		return ""
	case text == "" || isEntrance || slices.Contains(names, text) || strings.Contains(text, "@"):
		return text
	}
	if found := c.sites.Search(words...); len(found) > 0 && !strings.Contains(text, ".") {
		c.list(found, nil)
		c.likely = ""
		if len(found) == 1 { // it is probably meant
			c.likely = found[0].Name
		}
		if len(words) == 1 {
			c.Say("(To use a host called %[1]s: USER@%[1]s)", text)
		}
		return ""
	}
	if len(words) > 1 {
		c.Say("%q is not a host: write NAME or USER@NAME, without spaces.", text)
		return ""
	}
	if len(near) > 0 {
		c.Say("no site %q: did you mean %q? (To use a host of that name: USER@%s)", text, near[0], text)
		return ""
	}
	return text
}
