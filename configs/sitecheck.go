package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tunctl/internal/api"
)

// SiteReport is what CheckSite finds in a site file without errors.
type SiteReport struct {
	Site    Site
	Scripts []SiteScript
	Missing []MissingFact
}

// SiteScript is a builtin job of a site, with an example for every answer.
type SiteScript struct {
	App, Scheduler string
	Text           []byte
}

// MissingFact is a key that a site file leaves out, and what follows from that.
type MissingFact struct {
	Key  string `json:"key"`
	Lack string `json:"lack"`
}

// CheckSite reads a site file as LoadSites does, and renders its builtin jobs. Its key "like"
// may name any of the sites that LoadSites returns for these folders.
func CheckSite(file, own string, installed ...string) (SiteReport, error) {
	var r SiteReport
	name, isSite := strings.CutSuffix(filepath.Base(file), ".toml")
	if !isSite || !validName.MatchString(name) {
		return r, api.Errorf(api.CodeFailed, "%q cannot be the file of a site", filepath.Base(file)).
			WithHint("call it NAME.toml: NAME becomes the name of the site, of letters, digits, '.', '_' and '-'")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return r, api.Errorf(api.CodeFailed, "cannot read the site: %w", err).
			WithHint("name the file with its folder; your own sites are in %s", own)
	}
	l, err := newSiteLoader(own, installed)
	if err != nil {
		return r, err
	}
	if r.Site, err = parseSite(file, name, data, l.site); err != nil {
		return r, err
	}
	r.Site.Path = file
	for _, scheduler := range l.schedulers(r.Site) {
		for _, app := range BuiltinJobs() {
			job := Job{App: app, Name: name, Site: r.Site, Scheduler: scheduler, Command: commandExample}
			job.Answers = exampleAnswers(&job)
			text, err := job.Script()
			if err != nil {
				return r, unusable(err, "%s: the script of builtin:%s for %s cannot be written", file, app, scheduler)
			}
			if _, err := job.Workdir(); err != nil {
				return r, unusable(err, "%s: workdir", file)
			}
			r.Scripts = append(r.Scripts, SiteScript{app, scheduler, text})
		}
	}
	r.Missing = r.Site.missingFacts()
	return r, nil
}

// unusable is the error of a site file that cannot be used.
func unusable(err error, format string, args ...any) error {
	return api.Errorf(api.CodeFailed, "%s: %w", fmt.Sprintf(format, args...), err)
}

// schedulers are those that a site's jobs may be for: its own, or all of the generic sites.
func (l *siteLoader) schedulers(s Site) []string {
	if s.Scheduler != "" {
		return []string{s.Scheduler}
	}
	var all []string
	for name := range l.texts {
		if s, ok := l.site(name); ok && s.Generic() && !slices.Contains(all, s.Scheduler) {
			all = append(all, s.Scheduler)
		}
	}
	slices.Sort(all)
	return all
}

// exampleAnswers answers the required questions that have no default.
func exampleAnswers(j *Job) map[string]string {
	answers := map[string]string{}
	for _, q := range j.Questions() {
		if !q.Required || q.Default != "" {
			continue
		}
		answers[q.Name] = strings.Trim(q.example(), `"`)
		if q.Kind == AskWord || q.Kind == AskWords || q.Kind == AskQueue {
			answers[q.Name] = "example"
		}
	}
	return answers
}

// missingFacts are the keys that a good site file has and this one lacks.
func (s *Site) missingFacts() []MissingFact {
	_, asksHours := questionNamed(s.Questions, "hours")
	var missing []MissingFact
	for _, fact := range []struct {
		key   string
		known bool
		lack  string
	}{
		{"country", s.Country != "", "`tunctl sites COUNTRY` does not find the site"},
		{"scheduler", s.Scheduler != "", "tunctl finds it out at the first login"},
		{"entrance", len(s.Entrances) > 0 || s.Portal != "", "everybody has to type the address of the login node"},
		{"login", s.Login != "", "`tunctl init` does not say what a login asks for"},
		{"reach", len(s.Reach) > 0, "tunctl tries all ways to a compute node"},
		{"balance", len(s.Balance) > 0, "`tunctl quota` has no command"},
		{"help", len(s.Help) > 0, "there is no address of the site's documentation"},
		{"question.hours", asksHours || s.Scheduler == "none", "nobody can choose how long a job lasts"},
		{"job.directives", len(s.Job.Directives) > 0 || s.Scheduler == "none", "jobs request nothing: no account, time, memory or GPU"},
	} {
		if !fact.known {
			missing = append(missing, MissingFact{fact.key, fact.lack})
		}
	}
	return missing
}
