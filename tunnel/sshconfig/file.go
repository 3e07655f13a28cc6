package sshconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	said, warnings, err := readDirectives(alias, config)
	if err != nil {
		return Settings{}, err
	}
	local, _ := localUser()
	override(said, "user", cmp.Or(user, said.first("user"), local))
	override(said, "port", cmp.Or(port, said.first("port"), "22"))
	name := cmp.Or(said.first("hostname"), alias)
	override(said, "hostname", strings.NewReplacer("%%", "%", "%h", alias).Replace(name))
	defaults := directives{"identityfile": defaultIdentities}
	global := filepath.Join(systemDir(), "ssh_known_hosts")
	for key, value := range map[string]string{
		"userknownhostsfile":   "~/.ssh/known_hosts ~/.ssh/known_hosts2",
		"globalknownhostsfile": global + " " + global + "2",
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
	s.Warnings = append(warnings, s.Warnings...)
	explainKeychain(runtime.GOOS, &s, said, config)
	return s, nil
}

func override(d directives, key, value string) { d[key] = []string{value} }

// readDirectives reads what the config files say about an alias, in order: the first
// value of a keyword counts, unless its values add up.
func readDirectives(alias, config string) (directives, []string, error) {
	d := directives{}
	var warnings []string
	for _, path := range configFiles(config) {
		f := &flattener{}
		if err := f.file(path, config != "", 0); err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, f.warnings...)
		parsed, err := ssh_config.Decode(strings.NewReader(f.text.String()))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, host := range parsed.Hosts {
			if host.Matches(alias) {
				d.add(host.Nodes)
			}
		}
	}
	return d, warnings, nil
}

// rivals are keywords of which only the first in the file counts.
var rivals = map[string]string{"proxyjump": "proxycommand", "proxycommand": "proxyjump"}

func (d directives) add(nodes []ssh_config.Node) {
	for _, node := range nodes {
		kv, ok := node.(*ssh_config.KV)
		if !ok {
			continue
		}
		key := strings.ToLower(kv.Key)
		if rival := rivals[key]; rival == "" || len(d[rival]) == 0 {
			d[key] = append(d[key], unquote(kv.Value))
		}
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
	var aliases []string
	for _, path := range configFiles(sshConfig) {
		f := &flattener{}
		if err := f.file(path, sshConfig != "", 0); err != nil {
			return nil, err
		}
		for line := range strings.Lines(f.text.String()) {
			key, value := splitLine(line)
			if key != "host" {
				continue
			}
			for _, name := range strings.Fields(value) {
				name = strings.Trim(name, `"`)
				if !strings.ContainsAny(name, "*?!") && !strings.HasSuffix(name, OwnSuffix) {
					aliases = append(aliases, name)
				}
			}
		}
	}
	slices.Sort(aliases)
	return slices.Compact(aliases), nil
}

// flattener puts a config file and what it includes into one text for
// kevinburke/ssh_config, which refuses a whole file for one unknown Match. It leaves
// those blocks out and warns.
type flattener struct {
	text     strings.Builder
	warnings []string
	block    string // the current Host line; "" before the first
	skipping bool   // inside a Match block that is left out
}

// file appends one file. A missing one is an error only with must.
func (f *flattener) file(path string, must bool, depth int) error {
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
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		if err := f.line(path, number, strings.TrimRight(line, "\r\n"), depth); err != nil {
			return err
		}
	}
	return nil
}

func (f *flattener) line(path string, number int, line string, depth int) error {
	key, value := splitLine(line)
	switch key {
	case "host":
		f.begin(line)
	case "match":
		f.match(path, number, value)
	case "include":
		if f.skipping {
			return nil
		}
		return f.include(value, depth)
	default:
		if !f.skipping {
			fmt.Fprintln(&f.text, line)
		}
	}
	return nil
}

func (f *flattener) begin(hostLine string) {
	f.block, f.skipping = hostLine, false
	fmt.Fprintln(&f.text, hostLine)
}

// match keeps what a Host line can express.
func (f *flattener) match(path string, number int, criteria string) {
	words := strings.Fields(criteria)
	switch {
	case len(words) == 1 && strings.EqualFold(words[0], "all"):
		f.begin("Host *")
	case len(words) == 2 && (strings.EqualFold(words[0], "host") || strings.EqualFold(words[0], "originalhost")):
		f.begin("Host " + strings.ReplaceAll(words[1], ",", " "))
	default:
		f.skipping = true
		f.warnings = append(f.warnings, fmt.Sprintf("%s:%d: \"Match %s\" is skipped: only the ssh program can read it, and none was found", path, number, criteria))
	}
}

// include appends the files, then returns to the current block.
func (f *flattener) include(value string, depth int) error {
	outer := f.block
	for _, pattern := range strings.Fields(value) {
		pattern = includePath(strings.Trim(pattern, `"`))
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("include %q: %w", pattern, err)
		}
		for _, path := range paths {
			if err := f.file(path, false, depth+1); err != nil {
				return err
			}
			if f.block != outer || f.skipping {
				f.begin(cmp.Or(outer, "Host *"))
				f.block = outer
			}
		}
	}
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

// splitLine splits "Keyword value", "Keyword=value" or "Keyword = value".
func splitLine(line string) (key, value string) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, " \t=")
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", ""
	}
	value = strings.TrimSpace(line[i:])
	value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	return strings.ToLower(line[:i]), value
}
