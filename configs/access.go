package configs

import (
	"cmp"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entrance is a login node of a site.
type Entrance struct {
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	Port    int      `json:"port,omitempty"`    // 0: 22
	Jump    string   `json:"jump,omitempty"`    // the host to go through, an ssh destination
	Aliases []string `json:"aliases,omitempty"` // its other names; * stands for any characters
	About   string   `json:"about,omitempty"`
	// HostKeys are the fingerprints that the site publishes.
	HostKeys []string `json:"hostKeys,omitempty"`
}

// Is reports whether host is a name of the entrance.
func (e *Entrance) Is(host string) bool {
	host = strings.ToLower(host)
	return slices.ContainsFunc(e.names(), func(name string) bool {
		ok, err := path.Match(strings.ToLower(name), host)
		return ok && err == nil
	})
}

func (e *Entrance) names() []string { return append([]string{e.Host}, e.Aliases...) }

// Address is what to dial to reach the entrance by one of its names.
func (e *Entrance) Address(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(cmp.Or(e.Port, 22)))
}

// EntranceAt returns the entrance that has that name.
func (s *Site) EntranceAt(host string) (Entrance, bool) {
	return find(s.Entrances, func(e Entrance) bool { return e.Is(host) })
}

func newEntrance(name string) Entrance { return Entrance{Name: name} }

func (e *Entrance) check(in *input) { in.requires("host", `"login.example.org"`) }

func (e *Entrance) fields() []field {
	return []field{
		{"host", `"login.example.org"`, text(&e.Host, validHost)},
		{"port", `2222`, number(&e.Port, 1, 65535)},
		{"jump", `"gateway.example.org"`, text(&e.Jump, validHost)},
		{"aliases", `["login*.example.org"]`, texts(&e.Aliases, matching(`^[A-Za-z0-9*][A-Za-z0-9*._-]*$`, "is not a host name"))},
		{
			"host_keys", `["SHA256:0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"]`,
			texts(&e.HostKeys, matching(`^SHA256:[A-Za-z0-9+/]{43}$`, "is not a fingerprint as ssh shows it")),
		},
		{"about", `"from the campus network"`, text(&e.About)},
	}
}

// SiteLimits are a site's wishes that are stricter than tunctl's own limits. Zero: none.
type SiteLimits struct {
	Sessions     int    `json:"sessions,omitempty"`     // commands at a time on one connection
	LoginSpacing Period `json:"loginSpacing,omitempty"` // the shortest time between two automatic logins
	Retry        Period `json:"retry,omitempty"`        // the shortest time between two attempts to connect
	Refusals     int    `json:"refusals,omitempty"`     // refused logins until the user must act
}

func (l *SiteLimits) fields() []field {
	return []field{
		{"sessions", `1`, number(&l.Sessions, 1, 1000)},
		{"login_spacing", `"5m"`, period(&l.LoginSpacing, 0)},
		{"retry", `"1m"`, period(&l.Retry, 0)},
		{"refusals", `1`, number(&l.Refusals, 1, 1000)},
	}
}

// Certificate is a site's short-lived SSH certificate, which the user gets by logging in
// elsewhere.
type Certificate struct {
	Lifetime Period `json:"lifetime,omitempty"`
	Renew    string `json:"renew,omitempty"` // the command that gets one, for before_login; CAPITALS are to be replaced
	File     string `json:"file,omitempty"`  // where that command puts it on this computer
}

// Text says how long a login certificate is valid, and how to get one; "" where none is needed.
func (c *Certificate) Text() string {
	var parts []string
	if c.Lifetime > 0 {
		parts = append(parts, "valid for "+c.Lifetime.Words())
	}
	if c.Renew != "" {
		parts = append(parts, fmt.Sprintf("get one with `%s`, which before_login in the config can run", c.Renew))
	}
	return strings.Join(parts, "; ")
}

// Key is the file of the certificate's key on this computer.
func (c *Certificate) Key() string { return strings.TrimSuffix(LocalPath(c.File), certificateSuffix) }

func (c *Certificate) fields() []field {
	return []field{
		{"lifetime", `"24h"`, period(&c.Lifetime, time.Minute)}, // a shorter one cannot be used
		{"renew", `"step ssh login MAIL"`, text(&c.Renew)},
		{"file", `"~/.ssh/site-cert.pub"`, text(&c.File,
			matching(certificateSuffix+"$", "does not end in "+certificateSuffix+", as files of SSH certificates do"))},
	}
}

// certificateSuffix ends the name of a certificate's file; the rest is its key's.
const certificateSuffix = "-cert.pub"

// What a name in `dial` may contain.
const (
	dialNode    = "{node}"    // the node's name without its domain
	dialAddress = "{address}" // its addresses, as the login node knows them
)

var validDial = matching(`^([A-Za-z0-9.-]*\{node\}[A-Za-z0-9.-]*|\{address\})$`, "is neither {address} nor a host name with {node} in it")

// DialNames are the names by which the site's login nodes dial a compute node, in the order
// to try. addresses looks up what the login node knows.
func (s *Site) DialNames(node string, addresses func() []string) []string {
	short, _, _ := strings.Cut(node, ".")
	return s.dialNames(short, addresses)
}

func (s *Site) dialNames(short string, addresses func() []string) []string {
	var names []string
	for _, text := range s.Dial {
		if text == dialAddress {
			names = append(names, addresses()...)
			continue
		}
		names = append(names, strings.ReplaceAll(text, dialNode, short))
	}
	return names
}

// validRequirement is a directive as a job would have it: the option counts, its value is an
// example.
var validRequirement = matching(`^-(-[a-z][a-z-]*(=\S+)?|[A-Za-z]( \S+)?)$`,
	`is not an option of a job such as "--account=PROJECT" or "-l filesystems=home"`)
