package configs

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// CheckOptions are what Check compares a config with.
type CheckOptions struct {
	Sites Sites
	// Aliases are the hosts of the user's ssh config.
	Aliases []string
	// Resolves reports whether the ssh config has settings for a name that is none of its
	// aliases, for example by a pattern. It may be nil.
	Resolves func(host string) bool
}

// Check reads the config file at path as Load does, and also reports unknown sites,
// answers that do not fit the site's job, missing scripts, and hosts that are probably
// misspelt. Load ignores these, since other sessions still work.
func Check(path string, with CheckOptions) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	l := load(path, data)
	for _, h := range l.config.Hosts {
		if _, err := with.Sites.Find(h.Site); err != nil && h.Site != "" {
			l.src.wrapError(l.host(h.Name).byKey["site"].at, err)
		}
	}
	meant := l.meantHosts(with)
	for _, s := range l.config.Sessions {
		host := meant(s.Host)
		if host.Name != s.Host { // full addresses are what they are
			l.src.addError(l.session(s.Name).byKey["host"].at,
				fmt.Sprintf("did you mean %q? Otherwise add a section [%s]", host.Name, dottedKey("host", s.Host)),
				"host %q is neither in this file nor in your ssh config", s.Host)
		}
		l.checkJob(s, host, with.Sites)
		l.checkScript(s)
	}
	return l.result()
}

// CheckAnswers reports what is wrong with the answers of a session.
func CheckAnswers(path, session string, sites Sites) error {
	data, _ := readFile(path) // without a file there is no session
	l := load(path, data)
	if s, ok := l.config.Session(session); ok {
		l.checkJob(s, l.config.Host(s.Host), sites)
	}
	return l.src.err()
}

// meantHosts returns what tells the known host that a misspelt one probably means, or the
// host itself. Only the first unknown names are compared with all known ones.
func (l *loader) meantHosts(with CheckOptions) func(name string) Host {
	known := append(each(with.Aliases, aliasHost), l.config.Hosts...)
	meant := map[string]Host{}
	for _, h := range known {
		meant[h.Name] = h
	}
	compared := 0
	return func(name string) Host {
		if _, done := meant[name]; done || compared == maxErrors || !validName.MatchString(name) || strings.Contains(name, ".") {
			return cmp.Or(meant[name], aliasHost(name))
		}
		compared++
		meant[name] = aliasHost(name)
		if with.Resolves == nil || !with.Resolves(name) {
			if near := suggest.Nearest(name, each(known, func(h Host) string { return h.Name })); len(near) > 0 {
				meant[name] = meant[near[0]]
			}
		}
		return meant[name]
	}
}

// checkJob reports why the script of a session's job cannot be written.
func (l *loader) checkJob(s Session, host Host, sites Sites) {
	t := l.session(s.Name)
	if s.Builtin() == "" {
		return
	}
	if host.Site == "" && host.Scheduler == "" {
		l.checkAnswers(s, sites)
		return
	}
	site, err := sites.ForHost(host, host.Scheduler)
	if err != nil {
		return // reported with the host
	}
	job := s.BuiltinJob(host, site, host.Scheduler)
	_, problems := job.check()
	for _, p := range problems {
		l.src.wrapError(placeOf(t, p.answer), p.err)
	}
	if len(problems) > 0 {
		return
	}
	if _, err := job.Script(); err != nil {
		l.src.wrapError(cmp.Or(t.get("job").at, t.at), err) // its name is at fault
	}
}

// checkAnswers reports the answers of a session whose scheduler is not known, unless they fit
// one. The scheduler that is probably meant has the fewest unknown names.
func (l *loader) checkAnswers(s Session, sites Sites) {
	var reported []answerProblem
	fewest := len(s.With) + 1
	for _, scheduler := range Schedulers() {
		site, err := sites.ForHost(Host{}, scheduler)
		if err != nil {
			return // a broken file, which `tunctl sites` reports
		}
		problems, unknown := answerProblems(s.With, s.RunQuestions(site))
		if len(problems) == 0 {
			return
		}
		if unknown < fewest {
			reported, fewest = problems, unknown
		}
	}
	for _, p := range reported {
		l.src.wrapError(placeOf(l.session(s.Name), p.answer), p.err)
	}
}

// answerProblems are the answers that are wrong, and how many of them answer no question.
func answerProblems(answers map[string]string, questions []Question) (problems []answerProblem, unknown int) {
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		q, ok := questionNamed(questions, name)
		_, err := q.Check(answers[name])
		if !ok {
			unknown++
			err = unknownChoice(name, questions)
		}
		if err != nil {
			problems = append(problems, answerProblem{name, err})
		}
	}
	return problems, unknown
}

// checkScript reports a script on this computer that cannot be read.
func (l *loader) checkScript(s Session) {
	path, ok := strings.CutPrefix(s.Submit, LocalPrefix)
	if !ok {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(l.config.Path), path)
	}
	if _, err := os.Stat(path); err != nil {
		l.src.addError(l.session(s.Name).get("submit").at, "a relative path after local: starts at the folder of the config file", "cannot read the script: %v", err)
	}
}

// placeOf is the place of a session's answer, or where it belongs.
func placeOf(session *node, answer string) span {
	with := session.get("with")
	if n := with.byKey[answer]; n != nil {
		return span{n.keyAt.start, max(n.keyAt.end, n.at.end)}
	}
	return cmp.Or(with.keyAt, session.at)
}

// wrapError reports an error at a place.
func (s *source) wrapError(at span, err error) { s.addError(at, api.HintOf(err), "%v", err) }
