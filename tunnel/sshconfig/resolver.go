package sshconfig

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// A Resolver turns a host's name into settings: what the config calls the host, what ssh
// says about that, and what the config and the site add. The zero Resolver reads the
// person's own ssh_config in this process's environment.
type Resolver struct {
	SSHConfig string        // as ssh -F; "" = the person's own
	Env       api.Env       // the person's newest environment; PATH finds ssh
	Timeout   time.Duration // of one run of `ssh -G`; 0 = 15 s
	// Target is the ssh destination of a host's name; nil: the name itself.
	Target func(name string) string
	// Preset adds what the config says about a host; may be nil.
	Preset func(name string, s *Settings)
	// Read reads the settings of a destination; nil: as ssh would. Tests replace it.
	Read func(ctx context.Context, destination string) (Settings, error)
}

// Settings are those of the host of that name: "a,b" is b through a.
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

// route is the destination that a name stands for, and the hops before it.
func (r Resolver) route(name string) (destination string, via []string) {
	hops := strings.Split(name, ",")
	if last := len(hops) - 1; last > 0 {
		name, via = hops[last], hops[:last]
	} else if r.Target != nil {
		name = r.Target(name)
	}
	return hopDestination(name), via
}

// fromSSH reads the settings of a destination by `ssh -G`, which alone gets Match,
// Include and tokens right. Without an ssh program it reads the files itself, and warns
// of what it cannot read.
func (r Resolver) fromSSH(ctx context.Context, destination string) (Settings, error) {
	if destination == "" || strings.HasPrefix(destination, "-") || strings.ContainsAny(destination, " \t\r\n\x00") {
		// ssh would read it as an option, or as several words.
		return Settings{}, failure.Permanent.Errorf(api.CodeUsage, nil, "%q is not an ssh destination", destination)
	}
	s, err := r.fromProgram(ctx, destination)
	if errors.Is(err, exec.ErrNotFound) {
		if s, err = fromFiles(destination, r.SSHConfig); err != nil {
			err = failure.Permanent.Wrap(err)
		}
	}
	if err != nil {
		return Settings{}, api.Errorf(api.CodeConfig, "cannot read the ssh settings of %q: %w", destination, err).
			WithHint("try `ssh -G %s`", destination)
	}
	s.SSHConfig = r.SSHConfig
	return s, nil
}

// splitDestination splits [user@]host, or ssh://[user@]host[:port].
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
