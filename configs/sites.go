package configs

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"tunctl/internal/api"
)

//go:embed sites/*.toml
var siteFiles embed.FS

// Sites are all presets, in the order to show them.
type Sites []Site

// SitesFolder is the folder of a person's own sites, next to the config file.
func SitesFolder(configFile string) string { return filepath.Join(filepath.Dir(configFile), "sites") }

// LoadSites returns the sites that come with tunctl, those in the folders that an administrator
// installed, and those in the person's own folder. Of the same name, the last of these is
// used. The error is about files that cannot be read; the other sites are returned, too.
func LoadSites(own string, installed ...string) (Sites, error) {
	l, err := newSiteLoader(own, installed)
	for _, name := range slices.Sorted(maps.Keys(l.texts)) {
		l.site(name)
	}
	sites := make(Sites, 0, len(l.read))
	for _, s := range l.read {
		sites = append(sites, s)
	}
	slices.SortFunc(sites, func(a, b Site) int {
		if a.Generic() != b.Generic() {
			if a.Generic() {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return sites, errors.Join(append(l.errs, err)...)
}

// newSiteLoader collects the files of all sites.
func newSiteLoader(own string, installed []string) (*siteLoader, error) {
	l := &siteLoader{texts: map[string]siteText{}, read: map[string]Site{}, open: map[string]bool{}}
	err := l.collect(siteFiles, "sites", "")
	for _, folder := range append(slices.Clone(installed), own) {
		if folder == "" {
			continue
		}
		l.shared = slices.Contains(installed, folder)
		failed := l.collect(os.DirFS(folder), ".", folder)
		if !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return l, err
}

// siteLoader reads sites when they are needed, since one may be based on another.
type siteLoader struct {
	texts  map[string]siteText
	read   map[string]Site
	open   map[string]bool // being read: a site that is like itself
	shared bool            // the folder being read is an administrator's
	errs   []error
}

type siteText struct {
	path string
	own  bool
	data []byte
}

// collect collects the files of a folder.
func (l *siteLoader) collect(fsys fs.FS, dir, shown string) error {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return fmt.Errorf("reading the sites: %w", err)
	}
	for _, e := range entries {
		name, isSite := strings.CutSuffix(e.Name(), ".toml")
		if !isSite || e.IsDir() || !validName.MatchString(name) {
			continue
		}
		where := path.Join("sites", e.Name())
		if shown != "" {
			where = filepath.Join(shown, e.Name())
		}
		if l.shared {
			if err := checkInstalled(where); err != nil {
				l.errs = append(l.errs, err)
				continue
			}
		}
		data, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("reading a site: %w", err))
			continue
		}
		l.texts[name] = siteText{path: where, own: shown != "", data: data}
	}
	return nil
}

// site returns the site of that name, and reads it if needed.
func (l *siteLoader) site(name string) (Site, bool) {
	if s, ok := l.read[name]; ok {
		return s, true
	}
	text, ok := l.texts[name]
	if !ok || l.open[name] {
		return Site{}, false
	}
	l.open[name] = true
	s, err := parseSite(text.path, name, text.data, l.site)
	if err != nil {
		l.errs = append(l.errs, err)
		delete(l.texts, name)
		return Site{}, false
	}
	if text.own {
		s.Path = text.path
	}
	l.read[name] = s
	return s, true
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
	var found []Site
	for _, s := range all {
		if slices.ContainsFunc(s.Entrances, func(e Entrance) bool { return e.Name == name }) {
			found = append(found, s)
		}
	}
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
	if scheduler == "none" {
		scheduler = "workstation"
	}
	return all.Find(scheduler)
}

// TransferNode returns the host for copying files: the config's, else the site's
// data-transfer node; "" is the host itself.
func (all Sites) TransferNode(h Host) string {
	node := h.Transfer
	if node == "" && h.Site != "" {
		if site, err := all.Find(h.Site); err == nil {
			node = site.Transfer
		}
	}
	if node == noTransfer {
		return ""
	}
	return node
}

// Search returns the sites whose name, title, country or login nodes contain every word.
func (all Sites) Search(words ...string) Sites {
	found := Sites{}
	for _, s := range all {
		text := strings.ToLower(strings.Join(append(s.hosts(), s.Name, s.Title, s.Country), "\n"))
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) }) {
			found = append(found, s)
		}
	}
	return found
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

// hosts are the names of the login nodes.
func (s *Site) hosts() []string {
	var names []string
	for _, e := range s.Entrances {
		names = append(append(names, e.Host), e.Aliases...)
	}
	return names
}
