package sshconfig

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // %C is a SHA-1 in OpenSSH
	"encoding/hex"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directives are ssh_config keywords in lower case, each with its values in order.
type directives map[string][]string

func (d directives) first(key string) string {
	if v := d[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// settingsFrom turns directives into Settings. Values equal to the defaults were not set
// by the user.
func settingsFrom(destination string, d, defaults directives) Settings {
	_, alias, _ := splitDestination(destination)
	s := Settings{
		Destination:              destination,
		Alias:                    alias,
		Hostname:                 d.first("hostname"),
		Port:                     atoi(d.first("port"), 22),
		User:                     d.first("user"),
		IdentitiesOnly:           yes(d.first("identitiesonly")),
		IdentityAgent:            d.first("identityagent"),
		ProxyCommand:             unlessNone(d.first("proxycommand")),
		HostKeyAlias:             d.first("hostkeyalias"),
		StrictHostKeyChecking:    strict(d.first("stricthostkeychecking")),
		HashKnownHosts:           yes(d.first("hashknownhosts")),
		ConnectTimeout:           seconds(d.first("connecttimeout")),
		ServerAliveInterval:      seconds(d.first("serveraliveinterval")),
		ServerAliveCountMax:      atoi(d.first("serveralivecountmax"), 3),
		TCPKeepAlive:             d.first("tcpkeepalive") != "no",
		AddressFamily:            d.first("addressfamily"),
		BindAddress:              d.first("bindaddress"),
		PreferredAuthentications: commas(d.first("preferredauthentications")),
		PubkeyAuthentication:     !no(d.first("pubkeyauthentication")),
		PasswordAuthentication:   !no(d.first("passwordauthentication")),
		KbdInteractive:           !no(d.first("kbdinteractiveauthentication")),
		HostbasedAuthentication:  yes(d.first("hostbasedauthentication")),
		PKCS11Provider:           unlessNone(d.first("pkcs11provider")),
		NumberOfPasswordPrompts:  atoi(d.first("numberofpasswordprompts"), 3),
		RequiredRSASize:          atoi(cmp.Or(d.first("requiredrsasize"), d.first("rsaminsize")), 1024), // RSAMinSize: Red Hat's, before OpenSSH 9.1
		LocalForwards:            d["localforward"],
		RemoteForwards:           d["remoteforward"],
	}
	// `ssh -G` of OpenSSH 9.2 also lists the forwards of unix sockets here.
	s.DynamicForwards = slices.DeleteFunc(slices.Clone(d["dynamicforward"]), func(v string) bool { return strings.HasPrefix(v, "/") })
	if jump := unlessNone(d.first("proxyjump")); jump != "" {
		s.ProxyJump = commas(jump)
		s.ProxyCommand = ""
	}
	own := func(key string) string {
		if slices.Equal(d[key], defaults[key]) {
			return ""
		}
		return d.first(key)
	}
	s.KexAlgorithms = commas(own("kexalgorithms"))
	s.Ciphers = commas(own("ciphers"))
	s.MACs = commas(own("macs"))
	s.HostKeyAlgorithms = commas(own("hostkeyalgorithms"))
	s.CASignatureAlgorithms = commas(own("casignaturealgorithms"))
	s.PubkeyAcceptedAlgorithms = commas(cmp.Or(own("pubkeyacceptedalgorithms"), own("pubkeyacceptedkeytypes"))) // before OpenSSH 8.5
	s.IPQoS = own("ipqos")
	s.OwnIdentities = !slices.Equal(d["identityfile"], defaults["identityfile"])

	t := newTokens(&s)
	s.IdentityAgent = t.path(s.IdentityAgent)
	s.IdentityFiles = t.paths(d["identityfile"])
	s.CertificateFiles = t.paths(d["certificatefile"])
	s.UserKnownHosts = t.paths(pathList(d.first("userknownhostsfile")))
	s.GlobalKnownHosts = t.paths(pathList(d.first("globalknownhostsfile")))
	s.RevokedHostKeys = t.path(unlessNone(d.first("revokedhostkeys")))
	s.Warnings = unsupported(d, defaults)
	return s
}

// unsupported warns of directives that have no effect here.
func unsupported(d, defaults directives) []string {
	var warnings []string
	for key, why := range map[string]string{
		"compression":       "Compression is not supported and is ignored",
		"proxyusefdpass":    "ProxyUseFdpass is not supported",
		"verifyhostkeydns":  "VerifyHostKeyDNS is not supported: only known_hosts counts",
		"knownhostscommand": "KnownHostsCommand is not supported: only known_hosts counts",
	} {
		v := d.first(key)
		if v != defaults.first(key) && !no(v) && v != "none" {
			warnings = append(warnings, why)
		}
	}
	slices.Sort(warnings)
	return warnings
}

// keychainWarning explains UseKeychain: only Apple's programs can read those
// passphrases. Others get the unlocked key from the agent.
const keychainWarning = "UseKeychain: only Apple's ssh can read those passphrases; " +
	"run `ssh-add --apple-use-keychain KEYFILE` once, later `ssh-add --apple-load-keychain`, and the key comes from the ssh-agent"

// explainKeychain warns where UseKeychain has an effect. Only Apple's ssh knows it, and
// `ssh -G` may not print it, so the files are read too.
func explainKeychain(goos string, s *Settings, said directives, config string) {
	if goos != "darwin" {
		return
	}
	value := said.first("usekeychain")
	if value == "" {
		written, _, err := readDirectives(s.Alias, config)
		if err != nil {
			return // ssh -G could read them, and prints no yes
		}
		value = written.first("usekeychain")
	}
	if yes(value) {
		s.Warnings = append(s.Warnings, keychainWarning)
	}
}

// pathList splits the paths of a known_hosts directive, which `ssh -G` prints expanded
// and unquoted: a word that looks like a path begins a new one.
func pathList(value string) []string {
	if value == "" || value == "none" {
		return nil
	}
	var paths []string
	for _, word := range strings.Split(value, " ") {
		if len(paths) == 0 || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~") || len(word) > 2 && word[1] == ':' { // a drive
			paths = append(paths, word)
		} else {
			paths[len(paths)-1] += " " + word
		}
	}
	return paths
}

func yes(v string) bool { return v == "yes" || v == "true" }

func no(v string) bool { return v == "no" || v == "false" }

func unlessNone(v string) string {
	if strings.EqualFold(v, "none") {
		return ""
	}
	return v
}

// strict normalizes StrictHostKeyChecking, which `ssh -G` prints as true and false.
func strict(v string) string {
	switch v {
	case "yes", "true":
		return "yes"
	case "no", "false", "off":
		return "no"
	case "accept-new":
		return v
	}
	return "ask"
}

func commas(v string) []string {
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

func atoi(v string, otherwise int) int {
	if n, err := strconv.Atoi(v); err == nil {
		return n
	}
	return otherwise
}

// seconds parses a time of ssh_config: 30, 5m, 1h30m, none.
func seconds(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		d, _ = time.ParseDuration(v + "s")
	}
	return max(d, 0)
}

// tokens are the percent sequences of ssh_config(5) for one destination. `ssh -G` does
// not expand them in IdentityFile, CertificateFile and ProxyCommand.
type tokens struct {
	home string
	*strings.Replacer
}

func newTokens(s *Settings) tokens {
	home, _ := os.UserHomeDir()
	hostname, _ := os.Hostname()
	short, _, _ := strings.Cut(hostname, ".")
	local, uid := localUser()
	port := strconv.Itoa(s.Port)
	jump := strings.Join(s.ProxyJump, ",")
	keyName := cmp.Or(s.HostKeyAlias, s.Alias)
	//nolint:gosec // a name, not a secret
	sum := sha1.Sum([]byte(hostname + s.Hostname + port + s.User + jump))
	return tokens{home, strings.NewReplacer(
		"%%", "%", "%d", home, "%h", s.Hostname, "%i", uid, "%j", jump, "%k", keyName, "%L", short, "%l", hostname,
		"%n", s.Alias, "%p", port, "%r", s.User, "%u", local, "%C", hex.EncodeToString(sum[:]),
	)} // unknown ones stay
}

// path expands tokens, ${VARIABLES} and a leading tilde.
func (t tokens) path(p string) string {
	if p == "" || p == "none" {
		return p
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		p = filepath.Join(t.home, rest)
	}
	if strings.Contains(p, "${") {
		p = os.ExpandEnv(p)
	}
	return t.Replace(p)
}

func (t tokens) paths(list []string) []string {
	var out []string
	for _, p := range list {
		if p = t.path(p); p != "" && p != "none" {
			out = append(out, p)
		}
	}
	return out
}

func localUser() (name, uid string) {
	u, err := user.Current()
	if err != nil {
		return os.Getenv("USER"), ""
	}
	// DOMAIN\name on Windows
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:], u.Uid
}
