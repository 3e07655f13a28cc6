package configs

import (
	"cmp"
	"net"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
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
	for _, name := range append([]string{e.Host}, e.Aliases...) {
		if ok, err := path.Match(strings.ToLower(name), host); ok && err == nil {
			return true
		}
	}
	return false
}

// Address is what to dial to reach the entrance by one of its names.
func (e *Entrance) Address(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(cmp.Or(e.Port, 22)))
}

// EntranceAt returns the entrance that has that name.
func (s *Site) EntranceAt(host string) (Entrance, bool) {
	for _, e := range s.Entrances {
		if e.Is(host) {
			return e, true
		}
	}
	return Entrance{}, false
}

func entranceFields() []field[Entrance] {
	return []field[Entrance]{
		{"host", `"login.example.org"`, func(in *input, e *Entrance) { e.Host, _ = in.destination() }},
		{"port", `2222`, func(in *input, e *Entrance) { in.port(&e.Port) }},
		{"jump", `"gateway.example.org"`, func(in *input, e *Entrance) { e.Jump, _ = in.destination() }},
		{"aliases", `["login*.example.org"]`, setMatching(validAlias, "a host name", func(e *Entrance) *[]string { return &e.Aliases })},
		{"host_keys", `["SHA256:0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"]`, setMatching(validFingerprint, "a fingerprint as ssh shows it", func(e *Entrance) *[]string { return &e.HostKeys })},
		{"about", `"from the campus network"`, setText(func(e *Entrance) *string { return &e.About })},
	}
}

var (
	validAlias       = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9*._-]*$`)
	validFingerprint = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)
)

// setMatching makes the reader of a list of texts of one form.
func setMatching[T any](form *regexp.Regexp, what string, where func(*T) *[]string) func(*input, *T) {
	return func(in *input, into *T) {
		*where(into) = nil
		in.list(func(v value) {
			text, ok := in.line(v)
			switch {
			case !ok:
			case form.MatchString(text):
				*where(into) = append(*where(into), text)
			default:
				in.addError(v.at, "write: "+in.entry.key+" = "+in.example, "%q is not %s", text, what)
			}
		})
	}
}

// SiteLimits are a site's wishes that are stricter than tunctl's own limits. Zero: none.
type SiteLimits struct {
	Sessions     int    `json:"sessions,omitempty"`     // commands at a time on one connection
	LoginSpacing Period `json:"loginSpacing,omitempty"` // the shortest time between two automatic logins
	Retry        Period `json:"retry,omitempty"`        // the shortest time between two attempts to connect
	Refusals     int    `json:"refusals,omitempty"`     // refused logins until a person must act
}

func limitFields() []field[SiteLimits] {
	return []field[SiteLimits]{
		{"sessions", `1`, func(in *input, l *SiteLimits) { in.count(&l.Sessions) }},
		{"login_spacing", `"5m"`, setPeriod(func(l *SiteLimits) *Period { return &l.LoginSpacing })},
		{"retry", `"1m"`, setPeriod(func(l *SiteLimits) *Period { return &l.Retry })},
		{"refusals", `1`, func(in *input, l *SiteLimits) { in.count(&l.Refusals) }},
	}
}

// count reads a number from 1 on.
func (in *input) count(into *int) {
	v := in.entry.value
	if v.kind != unstable.Integer {
		in.mustBe(v, "a number")
		return
	}
	n, err := strconv.Atoi(v.text)
	if err != nil || n < 1 {
		in.addError(v.at, "write: "+in.entry.key+" = "+in.example, "%q must be 1 or more, not %s", in.entry.key, v.text)
		return
	}
	*into = n
}

// Certificate is a site's short-lived SSH certificate, which a person gets by logging in
// elsewhere.
type Certificate struct {
	Lifetime Period `json:"lifetime,omitempty"`
	Renew    string `json:"renew,omitempty"` // the command that gets one, for before_login; CAPITALS are to be replaced
	File     string `json:"file,omitempty"`  // where that command puts it on this computer
}

// Key is the file of the certificate's key on this computer.
func (c *Certificate) Key() string { return strings.TrimSuffix(LocalPath(c.File), certificateSuffix) }

// LifetimeWords is how long a certificate is valid, such as "24 h"; "" if that is not known.
func (c *Certificate) LifetimeWords() string {
	if c.Lifetime == 0 {
		return ""
	}
	return c.Lifetime.words()
}

func certificateFields() []field[Certificate] {
	return []field[Certificate]{
		{"lifetime", `"24h"`, func(in *input, c *Certificate) {
			setPeriod(func(c *Certificate) *Period { return &c.Lifetime })(in, c)
			if c.Lifetime > 0 && time.Duration(c.Lifetime) < time.Minute {
				in.addError(in.entry.value.at, "write: lifetime = "+in.example, "a certificate that is valid for less than a minute cannot be used")
			}
		}},
		{"renew", `"step ssh login MAIL"`, setText(func(c *Certificate) *string { return &c.Renew })},
		{"file", `"~/.ssh/site-cert.pub"`, func(in *input, c *Certificate) {
			text, ok := in.text()
			if ok && !strings.HasSuffix(text, certificateSuffix) {
				in.addError(in.entry.value.at, "write: file = "+in.example, "%q does not end in %s, as files of SSH certificates do", text, certificateSuffix)
				return
			}
			c.File = text
		}},
	}
}

// certificateSuffix ends the name of a certificate's file; the rest is its key's.
const certificateSuffix = "-cert.pub"

// What a name in `dial` may contain.
const (
	dialNode    = "{node}"    // the node's name without its domain
	dialAddress = "{address}" // its addresses, as the login node knows them
)

var validDial = regexp.MustCompile(`^[A-Za-z0-9.-]*\{node\}[A-Za-z0-9.-]*$`)

// DialNames are the names by which the site's login nodes dial a compute node, in the order
// to try. addresses looks up what the login node knows.
func (s *Site) DialNames(node string, addresses func() []string) []string {
	short, _, _ := strings.Cut(node, ".")
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

func (in *input) dial(s *Site) {
	s.Dial = nil
	in.list(func(v value) {
		text, ok := in.line(v)
		switch {
		case !ok:
		case text == dialAddress, validDial.MatchString(text):
			s.Dial = append(s.Dial, text)
		default:
			in.addError(v.at, "write: dial = "+in.example, "%q is neither {address} nor a host name with {node} in it", text)
		}
	})
}

var validRequirement = regexp.MustCompile(`^-(-[a-z][a-z-]*(=\S+)?|[A-Za-z]( \S+)?)$`)

// requirements reads directives as a job would have them: the option counts, its value is
// an example.
func (in *input) requirements(s *Site) {
	s.Require = nil
	in.list(func(v value) {
		text, ok := in.line(v)
		switch {
		case !ok:
		case validRequirement.MatchString(text):
			s.Require = append(s.Require, text)
		default:
			in.addError(v.at, "write: require = "+in.example, "%q is not an option of a job such as \"--account=PROJECT\" or \"-l filesystems=home\"", text)
		}
	})
}
