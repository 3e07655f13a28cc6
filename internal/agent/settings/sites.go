package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tunctl/configs"
)

// sites are the sites as they were last read.
type sites struct {
	mu      sync.Mutex
	list    configs.Sites
	version string // of their folders when they were read
	problem string // the last one that was logged
}

// Sites are the sites that come with tunctl and the user's own. They are read again when a
// file has changed: a user who writes one sees its effect at once.
func (s *Settings) Sites() configs.Sites {
	folder, installed := configs.SitesFolder(s.paths.Config), s.paths.Sites
	now := foldersVersion(folder, installed)
	s.sites.mu.Lock()
	list, current := s.sites.list, now != "" && s.sites.version == now
	s.sites.mu.Unlock()
	if current {
		return list
	}
	list, err := configs.LoadSites(folder, installed)
	problem := ""
	if err != nil {
		problem, now = err.Error(), "" // it may be readable the next time, without having changed
	}
	s.sites.mu.Lock()
	isNew := problem != s.sites.problem
	s.sites.list, s.sites.version, s.sites.problem = list, now, problem
	s.sites.mu.Unlock()
	if isNew && err != nil { // once: every probe of a page reads the sites
		s.log.Warn("cannot read a site file", "err", err)
	}
	return list
}

// mtimeStep is how far apart two edits have to be to get different modification times on
// any file system: FAT counts in steps of two seconds.
const mtimeStep = 3 * time.Second

// foldersVersion changes whenever a file in a folder does. It is "" while a file is so new
// that a second edit might not change its modification time.
func foldersVersion(folders ...string) string {
	version := "files:"
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			version += err.Error()
		}
		for _, e := range entries {
			info, err := os.Stat(filepath.Join(folder, e.Name()))
			if err != nil {
				continue
			}
			if time.Since(info.ModTime()) < mtimeStep {
				return ""
			}
			version += fmt.Sprintf(" %s %d %d", e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return version
}

// Site is the site that the config names for a host, if any.
func (s *Settings) Site(host string) (configs.Site, bool) {
	h := s.Config().Host(host)
	if h.Site == "" {
		return configs.Site{}, false
	}
	site, err := s.Sites().Find(h.Site)
	if err != nil {
		s.log.Warn("a host names an unknown site", "host", host, "site", h.Site)
	}
	return site, err == nil
}
