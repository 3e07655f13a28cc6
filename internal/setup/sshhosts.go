package setup

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // OpenSSH hashes names in known_hosts with it
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"tunctl/configs"
	"tunctl/tunnel/sshconfig"
)

// siteHint is a site that the user probably uses, and why.
type siteHint struct{ site, why string }

// sshHosts is what the user's files of ssh tell about hosts and sites.
type sshHosts struct {
	file    string // read in place of ~/.ssh/config; "": that
	sites   configs.Sites
	aliases []string
	hints   []siteHint
}

// newSSHHosts collects the hosts that the user has set up for ssh. An error is of a file that
// could not be read.
func newSSHHosts(file string, sites configs.Sites) (*sshHosts, error) {
	names, err := sshconfig.Aliases(file)
	names = append(names, puttyHosts()...)
	slices.Sort(names)
	return &sshHosts{file: file, sites: sites, aliases: slices.Compact(names)}, err
}

// findHints finds the sites whose login nodes are in the user's ssh config or known_hosts.
func (h *sshHosts) findHints(ctx context.Context) {
	for _, alias := range h.aliases[:min(len(h.aliases), maxAliases)] {
		h.addHint(h.resolve(ctx, alias), fmt.Sprintf("your ssh config has %s", alias))
	}
	// The files are those of a host without settings of its own.
	settings, _ := sshconfig.Resolver{SSHConfig: h.file}.Settings(ctx, "any.invalid")
	for _, file := range settings.UserKnownHosts {
		text, _ := os.ReadFile(file) // most people have only one of them
		for line := range strings.Lines(string(text)) {
			for _, host := range namesOfLine(line, h.sites) {
				h.addHint(host, fmt.Sprintf("you have logged in to %s: it is in %s", host, filepath.Base(file)))
			}
		}
	}
}

// addHint adds the site that has the host among its login nodes, once.
func (h *sshHosts) addHint(host, why string) {
	for _, s := range h.sites {
		_, found := s.EntranceAt(host)
		known := slices.ContainsFunc(h.hints, func(known siteHint) bool { return known.site == s.Name })
		if found && !known {
			h.hints = append(h.hints, siteHint{s.Name, why})
		}
	}
}

// namesOfLine are the names in a line of known_hosts. Of a hashed line it is the login node of
// a site with that hash. Lines with a marker, such as of an authority, are about more than
// hosts that the user used.
func namesOfLine(line string, sites configs.Sites) []string {
	marker, fields, _, _, _, err := ssh.ParseKnownHosts([]byte(line))
	if err != nil || marker != "" {
		return nil
	}
	var names []string
	for _, name := range fields {
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host // as in [host]:port
		}
		switch {
		case strings.HasPrefix(name, "|1|"):
			names = append(names, namesOfHash(name, sites)...)
		case !strings.ContainsAny(name, "*?!"):
			names = append(names, name)
		}
	}
	return names
}

// namesOfHash are the login nodes with a hash of known_hosts: |1|SALT|HASH.
func namesOfHash(hashed string, sites configs.Sites) []string {
	salt, hash, _ := strings.Cut(strings.TrimPrefix(hashed, "|1|"), "|")
	key, _ := base64.StdEncoding.DecodeString(salt) // of what is none, no name has the hash
	var names []string
	for _, s := range sites {
		for _, e := range s.Entrances {
			for _, host := range append([]string{e.Host}, e.Aliases...) {
				mac := hmac.New(sha1.New, key)
				_, _ = mac.Write([]byte(strings.ToLower(knownhosts.Normalize(e.Address(host)))))
				if base64.StdEncoding.EncodeToString(mac.Sum(nil)) == hash {
					names = append(names, host)
				}
			}
		}
	}
	return names
}

// maxAliases is how many of the ssh config's hosts are looked up: each may run ssh.
const maxAliases = 40

// resolve is the host that ssh would dial for a destination; "" if that is not known.
func (h *sshHosts) resolve(ctx context.Context, destination string) string {
	s, _ := sshconfig.Resolver{SSHConfig: h.file}.Settings(ctx, destination)
	return strings.ToLower(s.Hostname)
}

// aliasOf is the name of an address in the ssh config, if it has one.
func (h *sshHosts) aliasOf(ctx context.Context, address string) string {
	for _, alias := range h.aliases[:min(len(h.aliases), maxAliases)] {
		if h.resolve(ctx, alias) == strings.ToLower(address) {
			return alias
		}
	}
	return ""
}

// siteAt is the site with a destination among its login nodes.
func (h *sshHosts) siteAt(ctx context.Context, destination string) (configs.Site, bool) {
	address := h.resolve(ctx, destination)
	for _, s := range h.sites {
		if _, ok := s.EntranceAt(address); ok {
			return s, true
		}
	}
	return configs.Site{}, false
}

// puttySession is the destination of a saved PuTTY session.
type puttySession struct {
	protocol, host, user string
	port                 uint64
}

// destination is the session's host as ssh takes it; "" if it does not use SSH or has no host,
// as PuTTY's default settings. A user in the host's name takes precedence, as in PuTTY.
func (s puttySession) destination() string {
	host := strings.TrimSpace(s.host)
	if s.protocol != "ssh" || host == "" {
		return ""
	}
	user := s.user
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, host = host[:at], host[at+1:]
	}
	if user != "" {
		user += "@"
	}
	if s.port == 0 || s.port == 22 {
		return user + host
	}
	return "ssh://" + user + net.JoinHostPort(host, strconv.FormatUint(s.port, 10))
}
