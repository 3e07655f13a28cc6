package configs

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

//go:embed sites/*.toml
var siteFiles embed.FS

// Sites are all presets, in the order to show them.
type Sites []Site

// SitesFolder is the folder of a person's own sites, next to the config file.
func SitesFolder(configFile string) string { return filepath.Join(filepath.Dir(configFile), "sites") }

// LoadSites returns the sites that come with tunctl and those of a person's folder, which
// replace ours of the same name. The error is about files that cannot be read; the other
// sites are returned, too.
func LoadSites(folder string) (Sites, error) {
	l := &siteLoader{texts: map[string]siteText{}, read: map[string]Site{}, open: map[string]bool{}}
	err := l.collect(siteFiles, "sites", "")
	if folder != "" {
		own := l.collect(os.DirFS(folder), ".", folder)
		if !errors.Is(own, fs.ErrNotExist) {
			err = errors.Join(err, own)
		}
	}
	for name := range l.texts {
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

// siteLoader reads sites when they are needed, since one may be based on another.
type siteLoader struct {
	texts map[string]siteText
	read  map[string]Site
	open  map[string]bool // being read: a site that is like itself
	errs  []error
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
		data, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("reading a site: %w", err))
			continue
		}
		where := path.Join("sites", e.Name())
		if shown != "" {
			where = filepath.Join(shown, e.Name())
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
	names := make([]string, len(all))
	for i, s := range all {
		if s.Name == name {
			return s, nil
		}
		names[i] = s.Name
	}
	hint := "available: " + strings.Join(names, ", ")
	if near := suggest.Nearest(name, names); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q? `tunctl sites` lists them all", near[0])
	}
	return Site{}, &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("no site %q", name), Hint: hint}
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
	if node == NoTransfer {
		return ""
	}
	return node
}
