package api

import (
	"cmp"
	"strings"
	"time"
)

// HostState is the state of the connection to a host.
type HostState string

// The states of a host.
const (
	HostDown       HostState = "down"        // not wanted, not connected
	HostConnecting HostState = "connecting"  // a dial or login is in progress
	HostNeedsLogin HostState = "needs-login" // only the user can log in
	HostUp         HostState = "up"          // connected
	HostWaiting    HostState = "waiting"     // for the next attempt, or for a network
	HostBlocked    HostState = "blocked"     // a suspected ban, or refused for good: no attempts
)

// Host is a login node: its ssh settings and the state of its connection.
type Host struct {
	Alias         string    `json:"alias"`
	Hostname      string    `json:"hostname,omitempty"`
	Port          int       `json:"port,omitempty"`
	User          string    `json:"user,omitempty"`
	IdentityFiles []string  `json:"identityFiles"`
	ProxyJump     string    `json:"proxyJump,omitempty"`
	ProxyCommand  string    `json:"proxyCommand,omitempty"`
	Source        string    `json:"source,omitempty"` // "ssh -G" or "ssh_config"
	State         HostState `json:"state,omitempty"`
	Cause         string    `json:"cause,omitempty"`
	Hint          string    `json:"hint,omitempty"`
	Code          Code      `json:"code,omitempty"` // of the failure behind a blocked or needs-login state
	// Asking is the kind of question that the login waits for, while the user is asked,
	// and Links are the web addresses in it.
	Asking       PromptKind `json:"asking,omitempty"`
	Links        []string   `json:"links,omitempty"`
	Since        time.Time  `json:"since,omitzero"`
	RTTMs        float64    `json:"rttMs,omitempty"`
	Auth         string     `json:"auth,omitempty"`
	LoginNode    string     `json:"loginNode,omitempty"`
	Via          []string   `json:"via"`
	Warnings     []string   `json:"warnings,omitempty"`
	Transport    string     `json:"transport,omitempty"`    // of the connection, while it exists
	TransportWhy string     `json:"transportWhy,omitempty"` // if it is not the usual one

	// Outdated says that the config changed after the host was connected, and what to do.
	Outdated string `json:"outdated,omitempty"`

	Algorithms *Algorithms `json:"algorithms,omitempty"` // of a native connection
	// CertificateEnds is the end of the certificate that logged in or, of a host that is
	// not connected, of the certificate file for the next login.
	CertificateEnds time.Time `json:"certificateEnds,omitzero"`

	// Inside are the names by which ssh gets inside the jobs of sessions there, as in
	// jupyter.tun; of a listing of hosts.
	Inside []string `json:"inside,omitempty"`

	// Channels is how many sessions of its connection are in use, and MaxChannels how many
	// tunctl may use at once.
	Channels    int `json:"channels,omitempty"`
	MaxChannels int `json:"maxChannels,omitempty"`

	// NotRespondingSince is set while a connected host does not respond.
	NotRespondingSince time.Time `json:"notRespondingSince,omitzero"`
}

// IsStalled reports whether the host is connected but does not respond.
func (h Host) IsStalled() bool { return h.State == HostUp && !h.NotRespondingSince.IsZero() }

// Logins is what the limits on automatic logins to a host count. It outlives the agent.
type Logins struct {
	Last        time.Time `json:"last,omitzero"`        // when the last login began
	Refusals    int       `json:"refusals,omitempty"`   // since the last login that succeeded
	Refused     time.Time `json:"refused,omitzero"`     // when one was last refused
	BannedUntil time.Time `json:"bannedUntil,omitzero"` // until then a ban is suspected
	Why         string    `json:"why,omitempty"`        // there are no automatic logins until the user acts, or the ban ends

	Unfinished [3]time.Time `json:"unfinished,omitzero"` // when the last ended that were neither refused nor complete
}

// Known is what is remembered of logging in to a host. It outlives the agent.
type Known struct {
	Silent  bool   `json:"silent,omitempty"`  // the last login needed no user
	Address string `json:"address,omitempty"` // where it went: the next one is to reach the same one of several login nodes
	// Accounts are those that the name led to, the newest last: an edited config can point it elsewhere.
	Accounts []string `json:"accounts,omitempty"`
	Logins   Logins   `json:"logins,omitzero"`
}

// HostLabel is a host's name for people. The name of a host behind others contains the
// hops, as ProxyJump does: "narval,nc10201" is "nc10201 through narval".
func HostLabel(name string) string {
	i := strings.LastIndex(name, ",")
	if i < 0 {
		return name
	}
	return name[i+1:] + " through " + strings.ReplaceAll(name[:i], ",", ", ")
}

// What can carry a connection.
const (
	TransportNative  = "native"  // tunctl itself
	TransportOpenSSH = "openssh" // an ssh program that tunctl started
)

// Algorithms are what both ends of a connection agreed on.
type Algorithms struct {
	KeyExchange string `json:"kex,omitempty"`
	HostKey     string `json:"hostKey,omitempty"`
	Cipher      string `json:"cipher,omitempty"`
	MAC         string `json:"mac,omitempty"` // none if the cipher authenticates
}

// LoginMethods is how the login was done, in words.
func (h Host) LoginMethods() string {
	words := map[string]string{"publickey": "key", "keyboard-interactive": "prompt", "gssapi-with-mic": "Kerberos", "hostbased": "this computer's key"}
	list := strings.Split(h.Auth, "+")
	for i, method := range list {
		list[i] = cmp.Or(words[method], method)
	}
	return strings.Join(list, ", then ")
}
