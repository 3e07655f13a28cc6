package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tunctl/configs"
)

// plan is what `tunctl init` adds to the config.
type plan struct {
	site       configs.Site
	host       string // the [host.NAME]
	hostExists bool   // the config has it already
	ssh        string
	app        string // of configs.BuiltinJobs
	session    string
	job        string // the name of the session's job
	answers    map[string]string
	submit     string   // a job script of the person's; "" for a builtin job
	adopts     bool     // the session uses jobs of that name that the person starts
	workdir    string   // where to submit from
	args       []string // for the scheduler
	loggedIn   bool
}

var (
	notInName   = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	plainName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)
	capitalWord = regexp.MustCompile(`\b[A-Z]{2,}\b`)
	plainNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)
)

// hostName is the host's name in the config: that of its site, or that of its entrance if the
// person asked for it by that name or the config has another login node of the site.
func (i *interview) hostName(s configs.Site, ssh string) string {
	name := hostName(s, ssh)
	e, ok := s.EntranceAt(addressOf(ssh))
	if !ok {
		return name
	}
	other := slices.ContainsFunc(i.cfg.Hosts, func(h configs.Host) bool { return h.Name == name && addressOf(h.SSH) != addressOf(ssh) })
	if other || i.argument == e.Name {
		return e.Name
	}
	return name
}

// addressOf is the host of a destination.
func addressOf(ssh string) string { return ssh[strings.LastIndexByte(ssh, '@')+1:] }

// hostName is the name of the host's site, or for a generic site that of its address.
func hostName(s configs.Site, ssh string) string {
	if !s.Generic() {
		return s.Name
	}
	address := addressOf(ssh)
	name, _, _ := strings.Cut(address, ".")
	if plainNumber.MatchString(name) {
		name = "host-" + address // a numeric address
	}
	return strings.Trim(notInName.ReplaceAllString(name, "-"), "-")
}

// jobName is a name for the session's job that its scheduler does not shorten, and that no
// other session has there: the two would share a job.
func jobName(cfg *configs.Config, site configs.Site, host, session string) string {
	name := site.JobName(session)
	taken := func(s configs.Session) bool {
		return s.Job == name && (s.Host == host || cfg.Host(s.Host).Site == site.Name)
	}
	for n := 2; slices.ContainsFunc(cfg.Sessions, taken); n++ {
		name = site.JobName(fmt.Sprintf("%s-%d", session, n))
	}
	return name
}

// hostText is the section of the host. A host of no known site needs none: its scheduler is
// found out.
func (p plan) hostText() string {
	var b strings.Builder
	if p.site.Name != "" {
		fmt.Fprintf(&b, "# %s. `tunctl sites %s` shows what is known about it.\n", upperFirst(p.site.Title), p.site.Name)
	}
	fmt.Fprintf(&b, "[host.%s]\n", p.host)
	if p.ssh != p.host {
		fmt.Fprintf(&b, "ssh  = %s\n", configs.Quote(p.ssh))
	}
	if p.site.Name != "" {
		fmt.Fprintf(&b, "site = %s\n", configs.Quote(p.site.Name))
	}
	if renew := p.site.Certificate.Renew; renew != "" {
		todo := "Remove the # to use it."
		if capitalWord.MatchString(renew) {
			todo = "Replace the words in capitals, and remove the #."
		}
		fmt.Fprintf(&b, "# Gets a new certificate before each login. %s\n# before_login = %s\n", todo, configs.Quote(renew))
	}
	return b.String()
}

// text is the section for the config, with comments.
func (p plan) text() (string, error) {
	var b strings.Builder
	if !p.hostExists {
		b.WriteString(p.hostText() + "\n")
	}
	b.WriteString(p.comment())
	fmt.Fprintf(&b, "[session.%s]\n", p.session)
	fmt.Fprintf(&b, "host   = %s\n", configs.Quote(p.host))
	fmt.Fprintf(&b, "app    = %s\n", configs.Quote(p.app))
	submit := cmp.Or(p.submit, "builtin:"+p.app)
	own := p.submit != ""
	switch {
	case own && !p.adopts:
		fmt.Fprintf(&b, "submit = %s\n", configs.Quote(submit))
	case !own && p.adopts:
		fmt.Fprintf(&b, "job    = %s%s# use the job of this name\n", configs.Quote(p.job), gap(p.job))
	default:
		fmt.Fprintf(&b, "job    = %s%s# use a job of this name if there is one …\n", configs.Quote(p.job), gap(p.job))
		fmt.Fprintf(&b, "submit = %s%s# … otherwise submit this", configs.Quote(submit), gap(submit))
		if !own {
			fmt.Fprintf(&b, "; `tunctl script %s` prints it", p.session)
		}
		b.WriteString("\n")
	}
	if p.workdir != "" {
		fmt.Fprintf(&b, "workdir = %s\n", configs.Quote(p.workdir))
	}
	if len(p.args) > 0 {
		quoted := make([]string, len(p.args))
		for i, arg := range p.args {
			quoted[i] = configs.Quote(arg)
		}
		fmt.Fprintf(&b, "args   = [%s]\n", strings.Join(quoted, ", "))
	}
	if answers := p.with(); answers != "" {
		fmt.Fprintf(&b, "with   = { %s }\n", answers)
	}
	_, err := configs.Parse("the new section", []byte(b.String()))
	return b.String(), err
}

// comment says what the session does.
func (p plan) comment() string {
	switch {
	case p.app == configs.ShellApp:
		return fmt.Sprintf("# `tunctl up %[1]s` starts this job. It serves no page: `tunctl ssh %[1]s` is a shell inside,\n# `tunctl code %[1]s` opens an editor there.\n", p.session)
	case p.submit == "" && p.adopts:
		return fmt.Sprintf("# `tunctl up %s` opens the page of this job.\n", p.session)
	case p.app == "jupyter":
		return fmt.Sprintf("# `tunctl up %s` starts this notebook, waits for it and opens the page.\n", p.session)
	}
	return fmt.Sprintf("# `tunctl up %s` starts this job, waits for it and opens the page.\n", p.session)
}

// gap aligns comments.
func gap(value string) string { return strings.Repeat(" ", max(2, 20-len(value))) }

// with writes the answers in the order of the questions.
func (p plan) with() string {
	job := configs.Job{App: p.app, Site: p.site}
	var list []string
	for _, q := range job.Questions() {
		text, given := p.answers[q.Name]
		switch {
		case !given || q.Quiet && text == q.Default:
		case plainNumber.MatchString(text):
			list = append(list, q.Name+" = "+text)
		default:
			list = append(list, q.Name+" = "+configs.Quote(text))
		}
	}
	return strings.Join(slices.Compact(list), ", ")
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
