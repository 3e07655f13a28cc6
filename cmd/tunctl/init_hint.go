package main

import (
	"bufio"
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

	"tunctl/configs"
	"tunctl/tunnel/sshconfig"
)

// siteHint is a site that the person probably uses, and why.
type siteHint struct{ site, why string }

// findHints finds the sites whose login nodes are in the person's ssh config or known_hosts.
func (i *interview) findHints(ctx context.Context) {
	for _, alias := range i.aliases[:min(len(i.aliases), maxAliases)] {
		if address := i.resolve(ctx, alias); address != "" {
			i.addHint(address, fmt.Sprintf("your ssh config has %s", alias))
		}
	}
	for _, file := range i.knownHostsFiles(ctx) {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			for _, host := range namesOfLine(lines.Text(), i.sites) {
				i.addHint(host, fmt.Sprintf("you have logged in to %s: it is in %s", host, filepath.Base(file)))
			}
		}
		_ = f.Close()
	}
}

// addHint adds the site that has the host among its login nodes, once.
func (i *interview) addHint(host, why string) {
	for _, s := range i.sites {
		_, found := s.EntranceAt(host)
		known := slices.ContainsFunc(i.hints, func(h siteHint) bool { return h.site == s.Name })
		if found && !known {
			i.hints = append(i.hints, siteHint{s.Name, why})
		}
	}
}

// knownHostsFiles are the files that ssh reads for a host without settings of its own.
func (i *interview) knownHostsFiles(ctx context.Context) []string {
	s, err := sshconfig.Resolver{SSHConfig: sshConfigFile(i.cfg)}.Settings(ctx, "any.invalid")
	if err != nil {
		return nil
	}
	return s.UserKnownHosts
}

// namesOfLine are the names in a line of known_hosts. Of a hashed line it is the login node of
// a site with that hash. Lines with a marker, such as of an authority, are about more than
// hosts that the person used.
func namesOfLine(line string, sites configs.Sites) []string {
	fields := strings.Fields(line)
	if len(fields) < 3 || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "@") {
		return nil
	}
	if !strings.HasPrefix(fields[0], "|1|") {
		var names []string
		for name := range strings.SplitSeq(fields[0], ",") {
			if host, _, err := net.SplitHostPort(name); err == nil {
				name = host // as in [host]:port
			}
			if !strings.ContainsAny(name, "*?!") {
				names = append(names, name)
			}
		}
		return names
	}
	salt, hash, _ := strings.Cut(strings.TrimPrefix(fields[0], "|1|"), "|")
	key, err := base64.StdEncoding.DecodeString(salt)
	want, bad := base64.StdEncoding.DecodeString(hash)
	if err != nil || bad != nil {
		return nil
	}
	for _, s := range sites {
		for _, e := range s.Entrances {
			for _, host := range append([]string{e.Host}, e.Aliases...) {
				name := host
				if e.Port != 0 && e.Port != 22 {
					name = "[" + host + "]:" + strconv.Itoa(e.Port)
				}
				mac := hmac.New(sha1.New, key)
				_, _ = mac.Write([]byte(strings.ToLower(name)))
				if hmac.Equal(mac.Sum(nil), want) {
					return []string{host}
				}
			}
		}
	}
	return nil
}
