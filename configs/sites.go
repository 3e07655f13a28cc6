package configs

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"tunctl/internal/api"
)

//go:embed sites/*.toml
var siteFiles embed.FS

// Sites are all presets, in the order to show them.
type Sites []Site

// SitesFolder is the folder of the user's own sites, next to the config file.
func SitesFolder(configFile string) string { return filepath.Join(filepath.Dir(configFile), "sites") }

// LoadSites returns the sites that come with tunctl, those in the folders that an administrator
// installed, and those in the user's own folder. Of the same name, the last of these is
// used. The error is about files that cannot be read; the other sites are returned, too.
func LoadSites(own string, installed ...string) (Sites, error) {
	l := newSiteLoader(own, installed)
	return l.all(), errors.Join(l.errs...)
}

// siteLoader reads sites when they are needed, since one may be based on another.
type siteLoader struct {
	texts map[string]siteText // not yet read
	read  map[string]Site
	errs  []error
}

type siteText struct {
	path string // for messages
	own  bool   // it does not come with tunctl
	data []byte
}

// newSiteLoader collects the files of all sites. Those that come with tunctl are parsed once,
// unless a file replaces one of them: others may be based on it.
func newSiteLoader(own string, installed []string) *siteLoader {
	l := &siteLoader{texts: map[string]siteText{}, read: map[string]Site{}}
	for _, folder := range slices.Backward(append(slices.Clone(installed), own)) {
		if folder != "" {
			l.collect(folder, slices.Contains(installed, folder))
		}
	}
	builtin := parseBuiltin()
	for name := range l.texts {
		if _, replaced := builtin.read[name]; replaced {
			l.collect("", false)
			return l
		}
	}
	l.read = maps.Clone(builtin.read)
	l.errs = append(l.errs, builtin.errs...)
	return l
}

// parseBuiltin reads the sites that come with tunctl.
var parseBuiltin = sync.OnceValue(func() *siteLoader {
	l := &siteLoader{texts: map[string]siteText{}, read: map[string]Site{}}
	l.collect("", false)
	l.all()
	return l
})

// collect collects the files of a folder, but not those of a site that it has already; "" are
// those that come with tunctl.
func (l *siteLoader) collect(folder string, installed bool) {
	fsys, _ := fs.Sub(siteFiles, "sites") // it is there
	if folder != "" {
		fsys = os.DirFS(folder)
	}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.errs = append(l.errs, fmt.Errorf("reading the sites: %w", err))
	}
	for _, e := range entries {
		name, isSite := strings.CutSuffix(e.Name(), ".toml")
		if !isSite || e.IsDir() || !validName.MatchString(name) {
			continue
		}
		path := filepath.Join(cmp.Or(folder, "sites"), e.Name())
		if installed {
			if err := checkInstalled(path); err != nil {
				l.errs = append(l.errs, err)
				continue
			}
		}
		data, err := fs.ReadFile(fsys, e.Name())
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("reading a site: %w", err))
			continue
		}
		if _, found := l.texts[name]; !found {
			l.texts[name] = siteText{path, folder != "", data}
		}
	}
}

// site returns the site of that name, and reads it if needed.
func (l *siteLoader) site(name string) (Site, bool) {
	text, unread := l.texts[name]
	if !unread {
		s, ok := l.read[name]
		return s, ok
	}
	delete(l.texts, name) // a site that is like itself is not found
	s, err := parseSite(text.path, name, text.data, l.site)
	if err != nil {
		l.errs = append(l.errs, err)
		return Site{}, false
	}
	if text.own {
		s.Path = text.path
	}
	l.read[name] = s
	return s, true
}

// all are all sites that can be read, in the order to show them.
func (l *siteLoader) all() Sites {
	for _, name := range slices.Sorted(maps.Keys(l.texts)) {
		l.site(name)
	}
	rank := map[bool]int{true: 1} // generic sites come last
	return slices.SortedFunc(maps.Values(l.read), func(a, b Site) int {
		return cmp.Or(rank[a.Generic()]-rank[b.Generic()], strings.Compare(a.Name, b.Name))
	})
}

// Generic reports whether the site is for any machine with its scheduler.
func (s *Site) Generic() bool { return s.Portal == "" && len(s.Entrances) == 0 && s.Path == "" }

// Find returns the site of that name, or an error with the nearest name.
func (all Sites) Find(name string) (Site, error) {
	if s, ok := find(all, func(s Site) bool { return s.Name == name }); ok {
		return s, nil
	}
	near := didYouMean(name, each(all, func(s Site) string { return s.Name }))
	return Site{}, api.Errorf(api.CodeUsage, "no site %q", name).WithHint("%s", strings.TrimSpace(near+" `tunctl sites` lists them all"))
}

// WithEntrance returns the site that has an entrance of that name, if only one has. Many sites
// have several clusters, whose names people know better.
func (all Sites) WithEntrance(name string) (Site, bool) {
	found := slices.DeleteFunc(slices.Clone(all), func(s Site) bool {
		return !slices.ContainsFunc(s.Entrances, func(e Entrance) bool { return e.Name == name })
	})
	if len(found) != 1 {
		return Site{}, false
	}
	return found[0], true
}

// ForHost returns a host's site: the one the config names, else the generic one
// of its scheduler.
func (all Sites) ForHost(h Host, scheduler string) (Site, error) {
	if h.Site != "" {
		return all.Find(h.Site)
	}
	if scheduler == noScheduler {
		scheduler = "workstation"
	}
	return all.Find(scheduler)
}

// TransferNode returns the host for copying files: the config's, else the site's
// data-transfer node; "" is the host itself.
func (all Sites) TransferNode(h Host) string {
	site, _ := all.Find(h.Site)
	if node := cmp.Or(h.Transfer, site.Transfer); node != noTransfer {
		return node
	}
	return ""
}

// Search returns the sites whose name, title, country or login nodes contain every word.
func (all Sites) Search(words ...string) Sites {
	return slices.DeleteFunc(slices.Clone(all), func(s Site) bool {
		names := []string{s.Name, s.Title, s.Country}
		for _, e := range s.Entrances {
			names = append(names, e.names()...)
		}
		text := strings.ToLower(strings.Join(names, "\n"))
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
	})
}

// SearchWords are words that Search finds sites by, for suggestions.
func (all Sites) SearchWords() []string {
	var words []string
	for _, s := range all {
		words = append(words, s.Name, strings.ToLower(s.Country))
		for _, w := range strings.FieldsFunc(strings.ToLower(s.Title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if len(w) > 3 { // shorter ones are near to anything
				words = append(words, w)
			}
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

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
	schedulers := slices.Sorted(slices.Values(Schedulers()))
	if r.Site.Scheduler != "" {
		schedulers = []string{r.Site.Scheduler}
	}
	for _, scheduler := range schedulers {
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
