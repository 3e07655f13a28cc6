package sshconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// defaultIdentities are the key files ssh tries when none is named.
var defaultIdentities = []string{"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ecdsa_sk", "~/.ssh/id_ed25519", "~/.ssh/id_ed25519_sk"}

// fromFiles reads ssh_config without an ssh program.
func fromFiles(destination, config string) (Settings, error) {
	user, alias, port := splitDestination(destination)
	read, err := readConfig(alias, config)
	if err != nil {
		return Settings{}, err
	}
	said := read.said
	local, _ := localUser()
	override(said, "user", cmp.Or(user, said.first("user"), local))
	override(said, "port", cmp.Or(port, said.first("port"), "22"))
	name := cmp.Or(said.first("hostname"), alias)
	override(said, "hostname", strings.NewReplacer("%%", "%", "%h", alias).Replace(name))
	defaults := directives{"identityfile": defaultIdentities}
	for key, value := range map[string]string{
		"userknownhostsfile":   "~/.ssh/known_hosts ~/.ssh/known_hosts2",
		"globalknownhostsfile": globalKnownHosts(),
	} {
		if said.first(key) == "" {
			override(said, key, value)
		}
	}
	if len(said["identityfile"]) == 0 {
		said["identityfile"] = defaultIdentities
	}
	supported := supportedAlgorithms()
	ownKeys := slices.Concat(supported.HostKeys, supported.PublicKeyAuths, []string{ssh.CertAlgoSKED25519v01, ssh.CertAlgoSKECDSA256v01})
	for key, all := range map[string][]string{
		"kexalgorithms": supported.KeyExchanges, "ciphers": supported.Ciphers,
		"macs": supported.MACs, "hostkeyalgorithms": supported.HostKeys,
		"casignaturealgorithms": supported.PublicKeyAuths, "pubkeyacceptedalgorithms": ownKeys, "pubkeyacceptedkeytypes": ownKeys,
	} {
		if v := said.first(key); v != "" {
			override(said, key, strings.Join(amend(all, v), ","))
		}
	}
	s := settingsFrom(destination, said, defaults)
	s.Source = "ssh_config"
	s.Warnings = append(read.warnings, s.Warnings...)
	explainKeychain(runtime.GOOS, &s, said, config)
	return s, nil
}

func override(d directives, key, value string) { d[key] = []string{value} }

// configFiles are the files to read, the most important first. A given file replaces all
// others, as with ssh -F; "none" is no file.
func configFiles(config string) []string {
	switch config {
	case "none":
		return nil
	case "":
		home, _ := os.UserHomeDir()
		return []string{filepath.Join(home, ".ssh", "config"), filepath.Join(systemDir(), "ssh_config")}
	}
	return []string{config}
}

func globalKnownHosts() string {
	file := filepath.Join(systemDir(), "ssh_known_hosts")
	return file + " " + file + "2"
}

// amend applies a list of ssh_config to all supported names: + appends, - removes, ^
// puts first, and a plain list replaces.
func amend(all []string, list string) []string {
	if list == "" {
		return all
	}
	op, names := list[0], commas(strings.TrimLeft(list, "+-^"))
	switch op {
	case '+':
		return append(slices.Clone(all), slices.DeleteFunc(names, func(n string) bool { return slices.Contains(all, n) })...)
	case '-':
		return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return matchAny(names, n) })
	case '^':
		return append(names, slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(names, n) })...)
	}
	return names
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return err == nil && ok
	})
}

// OwnSuffix ends the names that tunctl itself writes into a person's ssh config, such as
// narval.tun: they lead back to its agent.
const OwnSuffix = ".tun"

// Aliases lists the hosts that a config file names without wildcards. Tunctl's own names
// are no hosts to connect to.
func Aliases(sshConfig string) ([]string, error) {
	read, err := readConfig("", sshConfig)
	if err != nil {
		return nil, err
	}
	aliases := slices.DeleteFunc(read.hosts, func(name string) bool {
		return strings.ContainsAny(name, "*?!") || strings.HasSuffix(name, OwnSuffix)
	})
	slices.Sort(aliases)
	return slices.Compact(aliases), nil
}

// maxInclude is how deep Include may nest, as in OpenSSH.
const maxInclude = 16

// configReader reads config files, with what they include, for one alias. It leaves out
// what only the ssh program can decide, and warns.
type configReader struct {
	alias    string
	said     directives // in order: the first value of a keyword counts, unless its values add up
	hosts    []string   // the patterns of all Host lines
	warnings []string
}

// readConfig reads what the config files say about an alias.
func readConfig(alias, config string) (*configReader, error) {
	r := &configReader{alias: alias, said: directives{}}
	for _, path := range configFiles(config) {
		if err := r.file(path, config != "", true, 0); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// file reads one file. A missing one is an error only with must; its lines count only with
// within.
func (r *configReader) file(path string, must, within bool, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: Include nests deeper than %d", path, maxInclude)
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		return err
	}
	active, number := within, 0
	for line := range strings.Lines(string(content)) {
		number++
		switch key, value := splitLine(line); key {
		case "":
		case "host":
			patterns := words(value)
			r.hosts = append(r.hosts, patterns...)
			active = within && matchesHost(patterns, r.alias)
		case "match":
			active = within && r.match(path, number, value)
		case "include":
			if err := r.include(value, active, depth); err != nil {
				return err
			}
		default:
			if active {
				r.said.add(key, value)
			}
		}
	}
	return nil
}

// match decides what a Host line could express, too.
func (r *configReader) match(path string, number int, criteria string) bool {
	switch list := words(criteria); {
	case len(list) == 1 && strings.EqualFold(list[0], "all"):
		return true
	case len(list) == 2 && (strings.EqualFold(list[0], "host") || strings.EqualFold(list[0], "originalhost")):
		return matchesHost(strings.Split(list[1], ","), r.alias)
	}
	r.warnings = append(r.warnings,
		fmt.Sprintf("%s:%d: \"Match %s\" is skipped: only the ssh program can read it, and none was found", path, number, criteria))
	return false
}

// matchesHost reports whether one of the patterns matches a name, and no negated one does.
func matchesHost(patterns []string, name string) bool {
	found := false
	for _, pattern := range patterns {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if ok, err := path.Match(pattern, name); err != nil || !ok {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// include reads the files of an Include; relative names are in ~/.ssh.
func (r *configReader) include(value string, within bool, depth int) error {
	home, _ := os.UserHomeDir()
	for _, pattern := range words(value) {
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			pattern = filepath.Join(home, rest)
		} else if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(home, ".ssh", pattern)
		}
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("include %q: %w", pattern, err)
		}
		for _, path := range paths {
			if err := r.file(path, false, within, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// rivals are keywords of which only the first in the file counts.
var rivals = map[string]string{"proxyjump": "proxycommand", "proxycommand": "proxyjump"}

func (d directives) add(key, value string) {
	// The double quotes around a value with spaces are no part of it.
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' && strings.Count(value, `"`) == 2 {
		value = value[1 : len(value)-1]
	}
	if rival := rivals[key]; rival == "" || len(d[rival]) == 0 {
		d[key] = append(d[key], value)
	}
}

// words splits a value, whose words may be quoted.
func words(value string) []string {
	list := strings.Fields(value)
	for i := range list {
		list[i] = strings.Trim(list[i], `"`)
	}
	return list
}

// comment is one after a value.
var comment = regexp.MustCompile(`\s#.*$`)

// splitLine splits "Keyword value", "Keyword=value" or "Keyword = value". A command is the
// whole line.
func splitLine(line string) (key, value string) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, " \t=")
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", ""
	}
	key, value = strings.ToLower(line[:i]), strings.TrimSpace(line[i:])
	value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	if key != "proxycommand" {
		value = comment.ReplaceAllString(value, "")
	}
	return key, value
}
