package configs

import (
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
	l := newSiteLoader(own, installed)
	if r.Site, err = parseSite(file, name, data, l.site); err != nil {
		return r, err
	}
	r.Site.Path = file
	for _, scheduler := range l.schedulers(r.Site) {
		for _, app := range BuiltinJobs() {
			job := Job{App: app, Name: name, Site: r.Site, Scheduler: scheduler, Command: commandExample, Answers: map[string]string{}}
			for _, q := range job.Questions() {
				if q.Required && q.Default == "" {
					job.Answers[q.Name] = q.sample()
				}
			}
			text, err := job.Script()
			if err != nil {
				return r, api.Errorf(api.CodeFailed, "%s: the script of builtin:%s for %s cannot be written: %w", file, app, scheduler, err)
			}
			if _, err := job.Workdir(); err != nil {
				return r, api.Errorf(api.CodeFailed, "%s: workdir: %w", file, err)
			}
			r.Scripts = append(r.Scripts, SiteScript{app, scheduler, text})
		}
	}
	r.Missing = r.Site.missingFacts()
	return r, nil
}

// schedulers are those that a site's jobs may be for: its own, or all of the generic sites.
func (l *siteLoader) schedulers(s Site) []string {
	if s.Scheduler != "" {
		return []string{s.Scheduler}
	}
	var all []string
	for _, s := range l.all() {
		if s.Generic() {
			all = append(all, s.Scheduler)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// missingFacts are the keys that a good site file has and this one lacks.
func (s *Site) missingFacts() []MissingFact {
	var missing []MissingFact
	need := func(known bool, key, lack string) {
		if !known {
			missing = append(missing, MissingFact{key, lack})
		}
	}
	_, asksHours := questionNamed(s.Questions, "hours")
	need(s.Country != "", "country", "`tunctl sites COUNTRY` does not find the site")
	need(s.Scheduler != "", "scheduler", "tunctl finds it out at the first login")
	need(len(s.Entrances) > 0 || s.Portal != "", "entrance", "everybody has to type the address of the login node")
	need(s.Login != "", "login", "`tunctl init` does not say what a login asks for")
	need(len(s.Reach) > 0, "reach", "tunctl tries all ways to a compute node")
	need(len(s.Balance) > 0, "balance", "`tunctl quota` has no command")
	need(len(s.Help) > 0, "help", "there is no address of the site's documentation")
	need(asksHours || s.Scheduler == noScheduler, "question.hours", "nobody can choose how long a job lasts")
	need(len(s.Job.Directives) > 0 || s.Scheduler == noScheduler, "job.directives", "jobs request nothing: no account, time, memory or GPU")
	return missing
}
