package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
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
	Source      string // "ssh -G" or "ssh_config"
	Warnings    []string
}

// ResolveOptions say where settings are read from.
type ResolveOptions struct {
	SSHConfig string        // as ssh -F; "" = the person's own
	Env       api.Env       // the person's newest environment; PATH finds ssh
	Timeout   time.Duration // of one run of `ssh -G`; 0 = 15 s
}

// Resolve reads the settings for a destination: by `ssh -G` where there is an ssh
// program, which alone is right about Match, Include and tokens, else by our own
// reading of ssh_config, with a warning for what that cannot honour.
func Resolve(ctx context.Context, destination string, o ResolveOptions) (Settings, error) {
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
	return s, nil
}

// checkDestination refuses what ssh would take for an option.
func checkDestination(destination string) error {
	if destination == "" || strings.HasPrefix(destination, "-") || strings.ContainsAny(destination, " \t\r\n\x00") {
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("%q is no ssh destination", destination), Err: classPermanent.of(nil)}
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

// key names the connection: two hosts with one key share it.
func (s *Settings) key() string {
	return s.User + "@" + s.address() + " via " + strings.Join(s.ProxyJump, ",") + s.ProxyCommand
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
