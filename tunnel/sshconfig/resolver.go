package sshconfig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// A Resolver turns a host's name into settings: what the config calls the host, what ssh
// says about that, and what the config and the site add. The zero Resolver reads the
// user's own ssh_config in this process's environment.
type Resolver struct {
	SSHConfig string        // as ssh -F; "" = the user's own
	Env       api.Env       // the user's newest environment; PATH finds ssh
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

// sshGTimeout is the default of Resolver.Timeout. ssh -G runs Match exec commands, which
// may wait for a VPN that is down, and may query DNS.
const sshGTimeout = 15 * time.Second

// fromProgram runs `ssh -G`. The error is exec.ErrNotFound without an ssh program.
func (r Resolver) fromProgram(ctx context.Context, destination string) (Settings, error) {
	program, err := FindSSH(r.Env)
	if err != nil {
		return Settings{}, exec.ErrNotFound
	}
	said, err := r.runSSHG(ctx, program, r.SSHConfig, destination)
	if err != nil {
		return Settings{}, err
	}
	defaults, err := r.defaultsOf(ctx, program)
	if err != nil {
		return Settings{}, err
	}
	s := settingsFrom(destination, said, defaults)
	s.Source = "ssh -G"
	explainKeychain(runtime.GOOS, &s, said, r.SSHConfig)
	return s, nil
}

// programDefaults are what ssh programs do unless the user sets something else, by path, size and
// time of the program: an update of OpenSSH may change them.
var programDefaults sync.Map // of directives

// defaultsOf returns the defaults of an ssh program, which are the same for every host but
// for its name: the user set what differs from them.
func (r Resolver) defaultsOf(ctx context.Context, program string) (directives, error) {
	info, err := os.Stat(program)
	if err != nil {
		return nil, failure.OfStart(err).Wrap(fmt.Errorf("ssh -G: %w", err))
	}
	file := fmt.Sprint(program, info.Size(), info.ModTime())
	if known, ok := programDefaults.Load(file); ok {
		return known.(directives), nil
	}
	d, err := r.runSSHG(ctx, program, "none", "localhost")
	if err == nil {
		programDefaults.Store(file, d)
	}
	return d, err
}

// runSSHG runs `ssh -G` once. A timeout may pass; for what ssh says see classOf.
func (r Resolver) runSSHG(ctx context.Context, program, config, destination string) (directives, error) {
	limit := cmp.Or(r.Timeout, sshGTimeout)
	running, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := []string{"-G", "-T"}
	if config != "" {
		args = append(args, "-F", config)
	}
	cmd := exec.CommandContext(running, program, append(args, "--", destination)...)
	endAsGroup(cmd) // with its Match exec commands
	cmd.Env = r.Env.Environ()
	cmd.WaitDelay = outputDelay
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	said := strings.TrimSpace(stderr.String())
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return parseSSHG(string(out)), nil
	case ctx.Err() != nil:
		return nil, failure.Passing.Wrap(ctx.Err())
	case running.Err() != nil && config == "none":
		return nil, failure.Passing.Wrap(fmt.Errorf("ssh -G without any settings took longer than %s: is this computer very busy?", api.DurationText(limit)))
	case running.Err() != nil:
		return nil, failure.Passing.Wrap(fmt.Errorf("ssh -G took longer than %s: a Match exec command or a name lookup does not end", api.DurationText(limit)))
	case exit == nil: // it could not be started
		return nil, failure.OfStart(err).Wrap(fmt.Errorf("ssh -G: %w", err))
	case exit.ExitCode() < 0: // ended by a signal
		return nil, failure.Passing.Wrap(fmt.Errorf("ssh -G: %w", err))
	case said == "":
		return nil, failure.Permanent.Wrap(fmt.Errorf("ssh -G: %w", err))
	case strings.HasPrefix(said, "usage: ssh") && strings.HasPrefix(destination, "ssh://"):
		return nil, failure.Permanent.Errorf(api.CodeUsage, nil, "ssh does not accept it as a destination")
	}
	return nil, classOf(said).Wrap(errors.New(api.NewRemoteText(said).String()))
}

// classOf is the class of a failed `ssh -G`, by its messages. A Match exec may have printed
// among them: a temporary failure that is taken for a mistake in the settings would stop the host
// until the user acts, while the reverse only reads the settings again.
func classOf(messages string) failure.Class {
	if class := failure.ReadSSH(messages).Class; class == failure.Unknown || class == failure.Permanent {
		return failure.Permanent
	}
	return failure.Passing
}

// parseSSHG parses the output of `ssh -G`: a lower-case keyword and its value on each
// line.
func parseSSHG(text string) directives {
	d := directives{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if key != "" {
			key = strings.ToLower(key)
			d[key] = append(d[key], value)
		}
	}
	return d
}

// FindSSH finds the ssh program of the system where it has one, else in the user's PATH,
// or in our own: an agent started at login may lack the former.
func FindSSH(env api.Env) (string, error) {
	if path, err := exec.LookPath(systemSSH()); err == nil {
		return path, nil
	}
	for _, dir := range filepath.SplitList(env["PATH"]) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "ssh")); err == nil {
			return path, nil
		}
	}
	return exec.LookPath("ssh")
}

// Keygen is a run of the ssh-keygen that belongs to the ssh program of the system.
func Keygen(ctx context.Context, args ...string) (*exec.Cmd, error) {
	program, err := FindSSH(nil)
	if err != nil {
		return nil, err
	}
	program, err = exec.LookPath(filepath.Join(filepath.Dir(program), "ssh-keygen"+filepath.Ext(program)))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	endAsGroup(cmd)
	cmd.WaitDelay = outputDelay
	return cmd, nil
}

// outputDelay is how long a command's last output may take to arrive after its end: on a
// computer that just woke up everything is slow.
const outputDelay = 5 * time.Second

// ShellCommand runs a line as ssh runs the commands of its settings: by the user's
// shell, in their newest environment. Ending it ends the programs that it started.
func ShellCommand(ctx context.Context, line string, env api.Env) *exec.Cmd {
	cmd := shell(ctx, line)
	cmd.Env = env.Environ()
	cmd.WaitDelay = outputDelay
	return cmd
}

// ProxyProgram runs the ProxyCommand.
func (s *Settings) ProxyProgram(ctx context.Context, env api.Env) *exec.Cmd {
	return ShellCommand(ctx, replaceShell+newTokens(s).Replace(s.ProxyCommand), env)
}
