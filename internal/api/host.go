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
	OwnKey        string    `json:"ownKey,omitempty"` // the file of the key that tunctl has made for it
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
	// KeyOffered says that the user was asked whether to make a key for the host.
	KeyOffered bool `json:"keyOffered,omitempty"`
}

// Key is a key that tunctl has made for a host.
type Key struct {
	File    string   `json:"file"`              // the private key, on this computer
	Line    string   `json:"line"`              // the public key, as in authorized_keys
	Portal  string   `json:"portal,omitempty"`  // the page where the user registers or removes it; "": tunctl does
	Besides []string `json:"besides,omitempty"` // the login methods that the host asks for after the key
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

// Look is what a host has for a first session there. All of it comes from programs and
// files of the host: names are single words, and nothing in it steers a terminal.
type Look struct {
	Scheduler    string         `json:"scheduler,omitempty"` // as in the config; none if it is not known
	Accounts     []Account      `json:"accounts"`
	Partitions   []Partition    `json:"partitions"`             // that the user may use, the best first
	AnyPartition bool           `json:"anyPartition,omitempty"` // a job needs to name none
	Environments []Environment  `json:"environments"`
	Scripts      []JobScript    `json:"scripts"`
	Serving      []Candidate    `json:"serving"`            // running jobs that serve something
	Parallel     []string       `json:"parallel,omitempty"` // Grid Engine's parallel environments
	Problems     []string       `json:"problems,omitempty"` // what was not found out in time, in words
	Home         string         `json:"home,omitempty"`
	User         string         `json:"user,omitempty"`
	Cluster      PartitionUsage `json:"cluster,omitzero"` // of all nodes, where partitions are not told apart
}

// Account is one that jobs may be charged to.
type Account struct {
	Name       string   `json:"name"`
	Default    bool     `json:"default,omitempty"`
	Partition  string   `json:"partition,omitempty"` // it may be used there only
	QoS        []string `json:"qos,omitempty"`
	DefaultQoS string   `json:"defaultQos,omitempty"`
	Source     string   `json:"source"` // the command or file that named it
}

// Partition is a partition or a queue.
type Partition struct {
	Name         string   `json:"name"`
	Default      bool     `json:"default,omitempty"`
	LimitSeconds int64    `json:"limitSeconds,omitempty"` // the longest that a job may run; 0: no limit
	GPUTypes     []string `json:"gpuTypes,omitempty"`
	GPUOnly      bool     `json:"gpuOnly,omitempty"`  // every node has GPUs
	Accounts     []string `json:"accounts,omitempty"` // the user's accounts that it accepts; none: all
	QoS          string   `json:"qos,omitempty"`      // to ask for: it does not accept the default one
	Source       string   `json:"source"`
	// FreeTypes are the free GPUs by type, where the scheduler tells types apart.
	FreeTypes map[string]int `json:"freeTypes,omitempty"`
	PartitionUsage
}

// PartitionUsage is how much of a partition is free now. What is not known is zero.
type PartitionUsage struct {
	CPUs     int `json:"cpus,omitempty"`
	FreeCPUs int `json:"freeCpus,omitempty"`
	GPUs     int `json:"gpus,omitempty"`
	FreeGPUs int `json:"freeGpus,omitempty"`
	NodeCPUs int `json:"nodeCpus,omitempty"` // of its largest node
	NodeMB   int `json:"nodeMb,omitempty"`   // memory of its largest node

	IdleNodes int  `json:"idleNodes,omitempty"`
	Waiting   int  `json:"waiting,omitempty"` // jobs of all users
	Guess     bool `json:"guess,omitempty"`   // what is free is shared with others, or not all of it accepts every job
}

// Free is what the user may use on a host now, what probably starts soonest first.
type Free struct {
	Host       string         `json:"host"`
	At         time.Time      `json:"at,omitzero"` // when the scheduler was asked
	Partitions []Partition    `json:"partitions"`
	Cluster    PartitionUsage `json:"cluster,omitzero"` // as in a Look
	Problems   []string       `json:"problems,omitempty"`
	Error      *Error         `json:"error,omitempty"` // why the host could not be asked
}

// EnvironmentKind says how a builtin job gets an environment.
type EnvironmentKind string

// The kinds of environments.
const (
	EnvironmentVenv      EnvironmentKind = "venv"
	EnvironmentConda     EnvironmentKind = "conda"
	EnvironmentModule    EnvironmentKind = "module"
	EnvironmentContainer EnvironmentKind = "container"
	EnvironmentPath      EnvironmentKind = "path" // on the PATH of a login shell
)

// Environment is an installation of Jupyter.
type Environment struct {
	Kind    EnvironmentKind `json:"kind"`
	Path    string          `json:"path"`              // a folder, an image, a module's name or a program
	App     string          `json:"app,omitempty"`     // "jupyterlab", "notebook" or "jupyter_server"; none of an image
	Version string          `json:"version,omitempty"` // of App
	Source  string          `json:"source"`
}

// JobScript is a job script of the user's that starts a notebook.
type JobScript struct {
	Path    string `json:"path"`
	Job     string `json:"job,omitempty"`     // the job's name in its directives
	Account string `json:"account,omitempty"` // the account or project in its directives
}

// CheckResult is the result of a check.
type CheckResult string

// The results of checks.
const (
	CheckOK      CheckResult = "ok"
	CheckBad     CheckResult = "bad"
	CheckUnknown CheckResult = "unknown" // it could not be checked, or proves nothing
)

// Check is one check of `tunctl doctor`.
type Check struct {
	About  string      `json:"about,omitempty"` // the host or the session; empty: this machine
	Name   string      `json:"name"`
	Result CheckResult `json:"result"`
	Text   string      `json:"text"`
	Fix    string      `json:"fix,omitempty"` // what the user can do about it
}
