// Package sshconfig turns the name of a host into [Settings]: what the user's
// ssh_config says about it, read by `ssh -G`, or from the files where there is no ssh
// program. It also runs the commands that settings name as ssh would.
//
// It dials nothing and does not read tunctl's own config: the caller gives a [Resolver]
// what that adds.
package sshconfig

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // %C is a SHA-1 in OpenSSH
	"encoding/hex"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Settings are what the user's ssh_config says about a destination, with paths and
// tokens expanded, and what tunctl's config adds.
type Settings struct {
	Destination string // as given: an alias, user@host, or ssh://user@host:port
	Alias       string // the destination without user and port
	Hostname    string
	Port        int
	User        string

	IdentityFiles    []string
	OwnIdentities    bool // IdentityFiles are the user's, not defaults
	CertificateFiles []string
	IdentitiesOnly   bool
	IdentityAgent    string // "" = SSH_AUTH_SOCK, "none" = no agent

	ProxyJump    []string
	ProxyCommand string

	UserKnownHosts        []string
	GlobalKnownHosts      []string
	HostKeyAlias          string
	StrictHostKeyChecking string // ask, yes, no, accept-new
	HashKnownHosts        bool
	RevokedHostKeys       string // a file of keys, or a KRL; "" = none

	// The algorithm lists are empty unless the user set them.
	KexAlgorithms     []string
	Ciphers           []string
	MACs              []string
	HostKeyAlgorithms []string
	// CASignatureAlgorithms and PubkeyAcceptedAlgorithms may hold wildcards.
	CASignatureAlgorithms    []string
	PubkeyAcceptedAlgorithms []string
	RequiredRSASize          int // of host keys and our own, in bits

	ConnectTimeout      time.Duration // 0 = ours
	ServerAliveInterval time.Duration // 0 = ours
	ServerAliveCountMax int
	TCPKeepAlive        bool
	IPQoS               string // "" unless the user set it
	AddressFamily       string // any, inet, inet6
	BindAddress         string

	PreferredAuthentications []string // in order; empty = ours
	PubkeyAuthentication     bool
	PasswordAuthentication   bool
	KbdInteractive           bool
	HostbasedAuthentication  bool
	PKCS11Provider           string
	NumberOfPasswordPrompts  int

	// Forwards as ssh_config writes them, for `forward = "ssh_config"`.
	LocalForwards   []string
	RemoteForwards  []string
	DynamicForwards []string

	// From tunctl's config, set by Resolver.Preset: a command to run before the user logs
	// in, and api.TransportOpenSSH or api.TransportNative; "": either.
	BeforeLogin string
	Transport   string
	// LoginPages are the hosts of web pages that a login may ask the user to open.
	LoginPages []string
	// PublishedHostKeys are the fingerprints of the host's keys that its site publishes.
	PublishedHostKeys []string
	// HostKeysPage is where the site publishes them, SiteHelp any page of the site; "" if none is known.
	HostKeysPage, SiteHelp string
	// RenewCertificate is the site's command for a new certificate, as a hint.
	RenewCertificate string

	// OwnKey is the file of the key that tunctl has made for the account, set by Resolver.Preset;
	// "": none.
	OwnKey string

	// The limits of the host's site, set by Resolver.Preset. 0 = ours; they can only be
	// stricter than ours.
	MaxSessions  int
	LoginSpacing time.Duration
	RetryMin     time.Duration
	Refusals     int

	SSHConfig string // the file they were read from, as ssh -F; "" = the user's own
	Source    string // "ssh -G" or "ssh_config"
	Warnings  []string
}

// Host is the settings part of an api.Host.
func (s Settings) Host() api.Host {
	return api.Host{
		Alias:         s.Alias,
		Hostname:      s.Hostname,
		Port:          s.Port,
		User:          s.User,
		IdentityFiles: append([]string{}, s.IdentityFiles...), // never nil
		OwnKey:        s.OwnKey,
		ProxyJump:     strings.Join(s.ProxyJump, ","),
		ProxyCommand:  s.ProxyCommand,
		Source:        s.Source,
		Via:           []string{},
		Warnings:      s.Warnings,
	}
}

// Address is where to dial, from here or from the last hop.
func (s *Settings) Address() string {
	return net.JoinHostPort(s.Hostname, strconv.Itoa(s.Port))
}

// Account is user@address.
func (s *Settings) Account() string { return s.User + "@" + s.Address() }

// SameHostKeys reports whether both settings accept the same host keys.
func (s *Settings) SameHostKeys(other *Settings) bool {
	part := func(s *Settings) Settings {
		return Settings{
			Hostname: s.Hostname, Port: s.Port, UserKnownHosts: s.UserKnownHosts, GlobalKnownHosts: s.GlobalKnownHosts,
			HostKeyAlias: s.HostKeyAlias, StrictHostKeyChecking: s.StrictHostKeyChecking, RevokedHostKeys: s.RevokedHostKeys,
			HostKeyAlgorithms: s.HostKeyAlgorithms, CASignatureAlgorithms: s.CASignatureAlgorithms, RequiredRSASize: s.RequiredRSASize,
		}
	}
	return reflect.DeepEqual(part(s), part(other))
}

// SameDial reports whether both settings lead to the same dial. If they were read in
// different ways, which have different defaults, only the target, the hops and the
// transport count.
func (s Settings) SameDial(other Settings) bool {
	if s.Source != other.Source {
		return s.Account() == other.Account() && slices.Equal(s.ProxyJump, other.ProxyJump) &&
			s.ProxyCommand == other.ProxyCommand && s.Transport == other.Transport
	}
	for _, x := range []*Settings{&s, &other} {
		x.Warnings, x.SSHConfig = nil, ""
		x.IdentityAgent = ""                                                 // it depends on the environment
		x.LocalForwards, x.RemoteForwards, x.DynamicForwards = nil, nil, nil // these are not about the connection
		x.OwnKey = ""                                                        // it was just made or removed
		x.LoginPages, x.PublishedHostKeys, x.RenewCertificate = nil, nil, ""
		x.HostKeysPage, x.SiteHelp = "", ""
	}
	return reflect.DeepEqual(s, other)
}

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
		files, err := readFiles(s.Alias, config)
		if err != nil {
			return // ssh -G could read them, and prints no yes
		}
		value = files.said.first("usekeychain")
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
	local, uid := LocalUser()
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

// LocalUser is the user of this computer, without a domain.
func LocalUser() (name, uid string) {
	u, err := user.Current()
	if err != nil {
		return os.Getenv("USER"), ""
	}
	// DOMAIN\name on Windows
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:], u.Uid
}
