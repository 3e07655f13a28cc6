package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Settings are what the person's ssh_config says about a destination, with paths
// and tokens expanded.
type Settings struct {
	Destination string // as given: an alias, user@host, or ssh://user@host:port
	Alias       string // the destination without user and port
	Hostname    string
	Port        int
	User        string

	IdentityFiles    []string
	OwnIdentities    bool // IdentityFiles were written by the person, not defaults
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

	// The algorithm lists are empty unless the person set them.
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
	IPQoS               string // "" unless the person set it
	AddressFamily       string // any, inet, inet6
	BindAddress         string

	PreferredAuthentications []string // in order; empty = ours
	PubkeyAuthentication     bool
	PasswordAuthentication   bool
	KbdInteractive           bool
	HostbasedAuthentication  bool
	PKCS11Provider           string
	NumberOfPasswordPrompts  int

	// Forwards in the words of ssh_config, for `forward = "ssh_config"`.
	LocalForwards   []string
	RemoteForwards  []string
	DynamicForwards []string

	// From the config, by way of Options.Preset: a command to run before a person
	// logs in, and api.TransportOpenSSH where the ssh program is to log in.
	BeforeLogin string
	Transport   string
	ReuseMaster bool // the person's own ssh connection may be ridden

	ControlPath string
	SSHConfig   string // the file they were read from, as ssh -F; "" = the person's own
	Source      string // "ssh -G" or "ssh_config"
	Warnings    []string
}

// A Resolver is the one way from a host's name to its settings: what the config
// calls the host, what ssh says of that, and what the config and the site add. The
// zero Resolver reads the person's own ssh_config in this process's environment.
type Resolver struct {
	SSHConfig string        // as ssh -F; "" = the person's own
	Env       api.Env       // the person's newest environment; PATH finds ssh
	Timeout   time.Duration // of one run of `ssh -G`; 0 = 15 s
	// Target turns a host's name into an ssh destination; nil: they are the same.
	Target func(name string) string
	// Preset fills in what is known about a host and its settings leave open; nil:
	// nothing is.
	Preset func(name string, s *Settings)

	// read reads the settings of a destination; nil: from ssh. Replaced in tests.
	read func(ctx context.Context, destination string) (Settings, error)
}

// Settings are those of the host of that name: "a,b" is b, by way of a.
func (r Resolver) Settings(ctx context.Context, name string) (Settings, error) {
	destination, via := r.route(name)
	return r.settings(ctx, name, destination, via)
}

// route is the destination that a name stands for, and the hops before it where the
// name has them.
func (r Resolver) route(name string) (destination string, via []string) {
	hops := strings.Split(name, ",")
	if last := len(hops) - 1; last > 0 {
		return hopDestination(hops[last]), hops[:last]
	}
	if r.Target != nil {
		name = r.Target(name)
	}
	return hopDestination(name), nil
}

// settings are those of a host that is reached at destination; via are the hops that
// its own settings do not decide.
func (r Resolver) settings(ctx context.Context, name, destination string, via []string) (Settings, error) {
	s, err := r.destination(ctx, destination)
	if err != nil {
		return Settings{}, err
	}
	if via != nil {
		s.ProxyJump, s.ProxyCommand = via, ""
	}
	if r.Preset != nil {
		r.Preset(name, &s)
	}
	return s, nil
}

// destination reads what ssh has on a destination.
func (r Resolver) destination(ctx context.Context, destination string) (Settings, error) {
	if r.read != nil {
		return r.read(ctx, destination)
	}
	return resolve(ctx, destination, resolveOptions{SSHConfig: r.SSHConfig, Env: r.Env, Timeout: r.Timeout})
}

// resolveOptions say where the settings of a destination are read from.
type resolveOptions struct {
	SSHConfig string
	Env       api.Env
	Timeout   time.Duration
}

// resolve reads the settings for a destination: by `ssh -G` where there is an ssh
// program, which alone is right about Match, Include and tokens, else by our own
// reading of ssh_config, with a warning for what that cannot honour.
func resolve(ctx context.Context, destination string, o resolveOptions) (Settings, error) {
	if err := checkDestination(destination); err != nil {
		return Settings{}, err
	}
	s, err := resolveSSHG(ctx, destination, o)
	if errors.Is(err, exec.ErrNotFound) {
		if s, err = resolveConfig(destination, o); err != nil {
			err = classPermanent.of(err)
		}
	}
	if err != nil {
		return Settings{}, &api.Error{
			Code:    api.CodeConfig,
			Message: fmt.Sprintf("cannot read the ssh settings of %q: %v", destination, err),
			Hint:    "try `ssh -G " + destination + "`",
			Err:     err,
		}
	}
	s.SSHConfig = o.SSHConfig
	return s, nil
}

// checkDestination refuses what ssh would take for an option.
func checkDestination(destination string) error {
	if destination == "" || strings.HasPrefix(destination, "-") || strings.ContainsAny(destination, " \t\r\n\x00") {
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("%q is not an ssh destination", destination), Err: classPermanent.of(nil)}
	}
	return nil
}

// Host is how the settings read to a person, with nothing dialled.
func (s Settings) Host() api.Host {
	h := api.Host{
		Alias:         s.Alias,
		Hostname:      s.Hostname,
		Port:          s.Port,
		User:          s.User,
		IdentityFiles: s.IdentityFiles,
		ProxyJump:     strings.Join(s.ProxyJump, ","),
		ProxyCommand:  s.ProxyCommand,
		Source:        s.Source,
		Via:           []string{},
		Warnings:      s.Warnings,
	}
	if h.IdentityFiles == nil {
		h.IdentityFiles = []string{}
	}
	return h
}

// address is where to dial, as the host or its last hop would.
func (s *Settings) address() string {
	return net.JoinHostPort(s.Hostname, strconv.Itoa(s.Port))
}

// sameDial reports whether a dial by these settings would be the same as by others.
// Where another reader read them, which has defaults of its own, only where they lead
// and by which transport counts.
func (s Settings) sameDial(other Settings) bool {
	if s.Source != other.Source {
		return s.account() == other.account() && slices.Equal(s.ProxyJump, other.ProxyJump) &&
			s.ProxyCommand == other.ProxyCommand && s.Transport == other.Transport
	}
	for _, x := range []*Settings{&s, &other} {
		x.Warnings, x.SSHConfig = nil, ""
		x.IdentityAgent, x.ControlPath = "", ""                              // they vary with the environment
		x.LocalForwards, x.RemoteForwards, x.DynamicForwards = nil, nil, nil // no matter of the connection
	}
	return reflect.DeepEqual(s, other)
}

// splitDestination takes [user@]host, or ssh://[user@]host[:port] apart.
func splitDestination(destination string) (user, host, port string) {
	rest, isURL := strings.CutPrefix(destination, "ssh://")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, rest = rest[:i], rest[i+1:]
	}
	if !isURL {
		return user, rest, ""
	}
	rest = strings.TrimSuffix(rest, "/")
	if h, p, err := net.SplitHostPort(rest); err == nil {
		return user, h, p
	}
	return user, strings.Trim(rest, "[]"), ""
}

// hopDestination turns a ProxyJump hop, [user@]host[:port], into a destination.
func hopDestination(hop string) string {
	if strings.HasPrefix(hop, "ssh://") {
		return hop
	}
	at := strings.LastIndexByte(hop, '@') + 1
	host, port, err := net.SplitHostPort(hop[at:])
	if err != nil {
		return hop[:at] + strings.Trim(hop[at:], "[]")
	}
	return "ssh://" + hop[:at] + net.JoinHostPort(host, port)
}
