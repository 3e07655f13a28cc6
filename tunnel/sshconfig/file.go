package sshconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/kevinburke/ssh_config"
	"golang.org/x/crypto/ssh"
)

// maxInclude is how deep Include may nest, as in OpenSSH.
const maxInclude = 16

// defaultIdentities are the key files ssh tries when none is named.
var defaultIdentities = []string{"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ecdsa_sk", "~/.ssh/id_ed25519", "~/.ssh/id_ed25519_sk"}

// fromFiles reads ssh_config without an ssh program.
func fromFiles(destination, config string) (Settings, error) {
	user, alias, port := splitDestination(destination)
	files, err := readFiles(alias, config)
	if err != nil {
		return Settings{}, err
	}
	said := files.said
	local, _ := LocalUser()
	override(said, "user", cmp.Or(user, said.first("user"), local))
	override(said, "port", cmp.Or(port, said.first("port"), "22"))
	override(said, "hostname", strings.NewReplacer("%%", "%", "%h", alias).Replace(cmp.Or(said.first("hostname"), alias)))
	defaults := directives{"identityfile": defaultIdentities}
	global := filepath.Join(systemDir(), "ssh_known_hosts")
	override(said, "userknownhostsfile", cmp.Or(said.first("userknownhostsfile"), "~/.ssh/known_hosts ~/.ssh/known_hosts2"))
	override(said, "globalknownhostsfile", cmp.Or(said.first("globalknownhostsfile"), global+" "+global+"2"))
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
	s.Warnings = append(files.warnings, s.Warnings...)
	explainKeychain(runtime.GOOS, &s, said, config)
	return s, nil
}

func override(d directives, key, value string) { d[key] = []string{value} }

// rivals are keywords of which only the first in the file counts.
var rivals = map[string]string{"proxyjump": "proxycommand", "proxycommand": "proxyjump"}

func (d directives) add(key, value string) {
	if rival := rivals[key]; rival == "" || len(d[rival]) == 0 {
		d[key] = append(d[key], unquote(value))
	}
}

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

// unquote removes the double quotes around a value with spaces.
func unquote(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' && strings.Count(v, `"`) == 2 {
		return v[1 : len(v)-1]
	}
	return v
}

// amend applies a list of ssh_config, which is not empty, to all supported names: + appends, -
// removes, ^ puts first, and a plain list replaces.
func amend(all []string, list string) []string {
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

// OwnSuffix ends the names that tunctl itself writes into the user's ssh config, such as
// narval.tun: they lead back to its agent.
const OwnSuffix = ".tun"

// Aliases lists the hosts that a config file names without wildcards. Tunctl's own names
// are no hosts to connect to.
func Aliases(sshConfig string) ([]string, error) {
	files, err := readFiles("", sshConfig)
	if err != nil {
		return nil, err
	}
	aliases := slices.DeleteFunc(files.hosts, func(name string) bool {
		return strings.ContainsAny(name, "*?!") || strings.HasSuffix(name, OwnSuffix)
	})
	slices.Sort(aliases)
	return slices.Compact(aliases), nil
}

// reader reads what config files say about an alias, in order: the first value of a keyword
// counts, unless its values add up. It leaves out a Match that it cannot read, and warns.
type reader struct {
	alias    string
	said     directives
	hosts    []string // the patterns of all Host lines
	warnings []string
	applies  bool // the current block is about the alias
	never    bool // the files being read were included in a block that is not
}

func readFiles(alias, config string) (*reader, error) {
	r := &reader{alias: alias, said: directives{}}
	for _, path := range configFiles(config) {
		r.applies = true
		if err := r.file(path, config != "", 0); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// file reads one file. A missing one is an error only with must.
func (r *reader) file(path string, must bool, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: Include nests deeper than %d", path, maxInclude)
	}
	content, err := os.ReadFile(path) //nolint:gosec // it is the user's own file
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(content), "\n") {
		switch key, value := splitLine(line); key {
		case "host":
			patterns := strings.Fields(strings.ReplaceAll(value, `"`, ""))
			r.hosts = append(r.hosts, patterns...)
			r.begin(patterns)
		case "match":
			r.match(path, i+1, value)
		case "include":
			if err := r.include(value, depth); err != nil {
				return err
			}
		default:
			if r.applies {
				r.said.add(key, value)
			}
		}
	}
	return nil
}

// begin begins a block about the hosts of some patterns; one that is none is about nobody.
func (r *reader) begin(patterns []string) {
	var block ssh_config.Host
	for _, p := range patterns {
		if pattern, err := ssh_config.NewPattern(p); err == nil {
			block.Patterns = append(block.Patterns, pattern)
		}
	}
	r.applies = !r.never && block.Matches(r.alias)
}

// match begins a block for what a Host line could express.
func (r *reader) match(path string, number int, criteria string) {
	words := strings.Fields(criteria)
	switch {
	case len(words) == 1 && strings.EqualFold(words[0], "all"):
		r.begin([]string{"*"})
	case len(words) == 2 && (strings.EqualFold(words[0], "host") || strings.EqualFold(words[0], "originalhost")):
		r.begin(strings.FieldsFunc(words[1], func(c rune) bool { return c == ',' }))
	default:
		r.applies = false
		r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: \"Match %s\" is skipped: only the ssh program can read it, and none was found", path, number, criteria))
	}
}

// include reads other files, as a part of the current block.
func (r *reader) include(value string, depth int) error {
	applies, never := r.applies, r.never
	r.never = never || !applies
	for _, pattern := range strings.Fields(value) {
		paths, err := filepath.Glob(includePath(strings.Trim(pattern, `"`)))
		if err != nil {
			return fmt.Errorf("include %q: %w", pattern, err)
		}
		for _, path := range paths {
			if err := r.file(path, false, depth+1); err != nil {
				return err
			}
			r.applies = applies
		}
	}
	r.never = never
	return nil
}

// includePath is the path of an Include; relative names are in ~/.ssh.
func includePath(p string) string {
	home, _ := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(home, rest)
	}
	if !filepath.IsAbs(p) {
		return filepath.Join(home, ".ssh", p)
	}
	return p
}

// comment is what a line may end with.
var comment = regexp.MustCompile(`\s#.*`)

// splitLine splits "Keyword value", "Keyword=value" or "Keyword = value".
func splitLine(line string) (key, value string) {
	line = strings.TrimSpace(comment.ReplaceAllString(line, ""))
	i := strings.IndexAny(line, " \t=")
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", ""
	}
	value = strings.TrimSpace(line[i:])
	value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	return strings.ToLower(line[:i]), value
}
