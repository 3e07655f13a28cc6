package configs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// Surroundings are what a config is checked against besides itself.
type Surroundings struct {
	Sites Sites
	// Aliases are the hosts of the person's ssh config.
	Aliases []string
	// Resolves reports whether the ssh config makes something else of a name that is none
	// of its aliases, as a pattern does. It may be nil.
	Resolves func(host string) bool
}

// Check reads the config file at path as Load does, and reports also what only its
// surroundings can tell: a site that there is not, answers that do not fit the site's
// job, and a host that is probably mistyped. None of that keeps other sessions from
// working, which is why Load lets it pass.
func Check(path string, with Surroundings) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	l := load(path, data)
	l.checkSites(with.Sites)
	for i := range l.config.Sessions {
		l.checkHost(i, with)
		l.checkJob(i, with)
	}
	return l.result()
}

// checkSites reports the sites of hosts that there are not.
func (l *loader) checkSites(sites Sites) {
	for i, h := range l.config.Hosts {
		if h.Site == "" {
			continue
		}
		if _, err := sites.Find(h.Site); err != nil {
			l.src.complainError(l.hosts[i].byKey["site"].value.at, err)
		}
	}
}

// checkHost reports the host of a session that nothing names and that is nearly the name
// of another. An address in full is nobody's slip.
func (l *loader) checkHost(session int, with Surroundings) {
	host := l.config.Sessions[session].Host
	if meant := l.meantHost(host, with); meant != host {
		l.src.complain(l.sessions[session].byKey["host"].value.at,
			fmt.Sprintf("did you mean %q? Otherwise add a section [%s]", meant, dottedKey([]string{"host", host})),
			"host %q is neither in this file nor in your ssh config", host)
	}
}

// meantHost is the host that a session's host is probably a slip of, or that host itself.
func (l *loader) meantHost(host string, with Surroundings) string {
	known := slices.Clone(with.Aliases)
	for _, h := range l.config.Hosts {
		known = append(known, h.Name)
	}
	if slices.Contains(known, host) || !goodName.MatchString(host) || strings.Contains(host, ".") || with.Resolves != nil && with.Resolves(host) {
		return host
	}
	if near := suggest.Nearest(host, known); len(near) > 0 {
		return near[0]
	}
	return host
}

// checkJob reports what keeps the job that a session submits from being written. Where
// the site is only known once the host is connected, there is nothing to check by yet.
func (l *loader) checkJob(session int, with Surroundings) {
	s, t := l.config.Sessions[session], l.sessions[session]
	host := l.config.Host(l.meantHost(s.Host, with))
	if s.Builtin() == "" || host.Site == "" && host.Scheduler == "" {
		return
	}
	site, err := with.Sites.ForHost(host, host.Scheduler)
	if err != nil {
		return // reported with the host
	}
	job := s.BuiltinJob(site, host.Scheduler)
	_, problems := job.check()
	for _, p := range problems {
		l.src.complainError(t.placeOf(p.answer), p.err)
	}
	if len(problems) > 0 {
		return
	}
	if _, err := job.Script(); err != nil {
		at := t.at
		if e := t.byKey["job"]; e != nil {
			at = e.value.at // its name is at fault
		}
		l.src.complainError(at, err)
	}
}

// placeOf is where a session's answer is written, or where it would be.
func (t *table) placeOf(answer string) span {
	with := t.byKey["with"]
	switch {
	case with == nil:
		return t.at
	case with.value.table != nil && with.value.table.byKey[answer] != nil:
		e := with.value.table.byKey[answer]
		return span{e.at.start, max(e.at.end, e.value.at.end)}
	}
	return with.at
}

// complainError notes at a place what an error says.
func (s *source) complainError(at span, err error) {
	hint := ""
	if e, ok := errors.AsType[*api.Error](err); ok {
		hint = e.Hint
	}
	s.complain(at, hint, "%v", err)
}

// BuiltinJob is the job that comes with tunctl and that the session submits.
func (s *Session) BuiltinJob(site Site, scheduler string) *Job {
	return &Job{
		App: s.Builtin(), Name: cmp.Or(s.Job, s.Name), Site: site, Scheduler: scheduler, Reach: s.Reach, Answers: maps.Clone(s.With),
	}
}
