package sshconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"tunctl/internal/api"
)

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

	// User logs in where the last of several hops names nobody; "": as ssh has it.
	User string
	// Read reads the settings of a destination; nil: from ssh. Replaced in tests.
	Read func(ctx context.Context, destination string) (Settings, error)
}

// Settings are those of the host of that name: "a,b" is b, by way of a.
func (r Resolver) Settings(ctx context.Context, name string) (Settings, error) {
	destination, via := r.route(name)
	read := r.Read
	if read == nil {
		read = r.fromSSH
	}
	s, err := read(ctx, destination)
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

// route is the destination that a name stands for, and the hops before it where the
// name has them.
func (r Resolver) route(name string) (destination string, via []string) {
	hops := strings.Split(name, ",")
	if last := len(hops) - 1; last > 0 {
		name, via = hops[last], hops[:last]
		if r.User != "" && !strings.Contains(name, "@") {
			name = r.User + "@" + name
		}
	} else if r.Target != nil {
		name = r.Target(name)
	}
	return hopDestination(name), via
}

// fromSSH reads the settings for a destination: by `ssh -G` where there is an ssh
// program, which alone is right about Match, Include and tokens, else by our own
// reading of ssh_config, with a warning for what that cannot honour.
func (r Resolver) fromSSH(ctx context.Context, destination string) (Settings, error) {
	if err := checkDestination(destination); err != nil {
		return Settings{}, err
	}
	s, err := r.fromProgram(ctx, destination)
	if errors.Is(err, exec.ErrNotFound) {
		if s, err = fromFiles(destination, r.SSHConfig); err != nil {
			err = &Error{Err: err}
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
	s.SSHConfig = r.SSHConfig
	return s, nil
}

// Error is the cause of settings that cannot be used.
type Error struct {
	Temporary bool // the same settings may be read later
	Err       error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return "no further cause"
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// checkDestination refuses what ssh would take for an option.
func checkDestination(destination string) error {
	if destination == "" || strings.HasPrefix(destination, "-") || strings.ContainsAny(destination, " \t\r\n\x00") {
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("%q is not an ssh destination", destination), Err: &Error{}}
	}
	return nil
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
