// Package sshconfig turns the name of a host into [Settings]: what the user's
// ssh_config says about it, read by `ssh -G`, or from the files where there is no ssh
// program. It also runs the commands that settings name as ssh would.
//
// It dials nothing and does not read tunctl's own config: the caller gives a [Resolver]
// what that adds.
package sshconfig

import (
	"net"
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
	// RenewCertificate is the site's command for a new certificate, as a hint.
	RenewCertificate string

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
		x.LoginPages, x.PublishedHostKeys, x.RenewCertificate = nil, nil, ""
	}
	return reflect.DeepEqual(s, other)
}
