package sshconfig

import (
	"cmp"
	"fmt"
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

// OwnSuffix ends the names that tunctl itself writes into a person's ssh config, such as
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
