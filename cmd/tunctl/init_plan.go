package main

import (
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

// text is the section for the config, with comments.
func (p plan) text() (string, error) {
	var b strings.Builder
	if !p.hostExists {
		fmt.Fprintf(&b, "# %s. `tunctl sites %s` shows what is known about it.\n", upperFirst(p.site.Title), p.site.Name)
		fmt.Fprintf(&b, "[host.%s]\n", p.host)
		if p.ssh != p.host {
			fmt.Fprintf(&b, "ssh  = %s\n", configs.Quote(p.ssh))
		}
		fmt.Fprintf(&b, "site = %s\n", configs.Quote(p.site.Name))
		if renew := p.site.Certificate.Renew; renew != "" {
			todo := "Remove the # to use it."
			if capitalWord.MatchString(renew) {
				todo = "Replace the words in capitals, and remove the #."
			}
			fmt.Fprintf(&b, "# Gets a new certificate before each login. %s\n# before_login = %s\n", todo, configs.Quote(renew))
		}
		b.WriteString("\n")
	}
	switch p.app {
	case "jupyter":
		fmt.Fprintf(&b, "# `tunctl up %s` starts this notebook, waits for it and opens the page.\n", p.session)
	case configs.ShellApp:
		fmt.Fprintf(&b, "# `tunctl up %s` starts this job. It serves no page: `tunctl ssh %s` is a shell inside,\n# `tunctl code %s` opens an editor there.\n", p.session, p.session, p.session)
	default:
		fmt.Fprintf(&b, "# `tunctl up %s` starts this job, waits for it and opens the page.\n", p.session)
	}
	fmt.Fprintf(&b, "[session.%s]\n", p.session)
	fmt.Fprintf(&b, "host   = %s\n", configs.Quote(p.host))
	fmt.Fprintf(&b, "app    = %s\n", configs.Quote(p.app))
	fmt.Fprintf(&b, "job    = %s%s# use a job of this name if there is one …\n", configs.Quote(p.job), gap(p.job))
	submit := "builtin:" + p.app
	fmt.Fprintf(&b, "submit = %s%s# … otherwise submit this; `tunctl script %s` prints it\n", configs.Quote(submit), gap(submit), p.session)
	if answers := p.with(); answers != "" {
		fmt.Fprintf(&b, "with   = { %s }\n", answers)
	}
	_, err := configs.Parse("the new section", []byte(b.String()))
	return b.String(), err
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
