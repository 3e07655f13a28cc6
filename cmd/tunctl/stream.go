package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
	"tunctl/internal/words"
	"tunctl/tunnel/sshconfig"
)

// openStream opens a private stream, and puts the host's questions to the user meanwhile.
func openStream(ctx context.Context, t *term.Terminal, cl *client.Client, req api.StreamRequest) (s *client.Stream, err error) {
	open := func() { s, err = cl.Stream(ctx, req) }
	if t.Interactive {
		q := &promptReader{term: t, client: cl, host: req.Host}
		q.during(ctx, open, func(api.Event) {})
	} else {
		req.Unattended = true
		open()
	}
	if s != nil && s.Notice != "" {
		t.Say("tunctl: %s", s.Notice)
	}
	return s, err
}

// aliasSuffix marks the names that `tunctl ssh-config install` gives to ssh.
const aliasSuffix = sshconfig.OwnSuffix

// destination reads where a command goes, as in parseDestination, and starts the agent. A
// session whose agent is not running is down: nothing is started for it, since editors and
// git reconnect by timers.
func (inv *invocation) destination(ctx context.Context, name string) (api.StreamRequest, error) {
	cfg := readConfig(inv.paths)
	if _, err := inv.client.Status(ctx); errors.Is(err, client.ErrNotRunning) {
		st := inv.lastKnown(cfg)
		if req := parseDestination(cfg, st, name); req.Session != "" {
			return req, downError(st, req.Session)
		}
	}
	st, err := inv.ensureAgent(ctx)
	if err != nil {
		return api.StreamRequest{}, err
	}
	return parseDestination(cfg, st, name), nil
}

// downError says that a session is down and, if it has a job, when that was last seen.
func downError(st api.Status, session string) error {
	if s, ok := st.Session(session); ok && s.Cause != "" {
		return api.Errorf(api.CodeNotReady, "session %s is %s: %s", session, words.Session(s, time.Now()), s.Cause).WithHint("%s", s.Hint)
	}
	return api.Errorf(api.CodeNotReady, "session %s is down", session).WithHint("`tunctl up %s` starts it", session)
}

// loginNode is the host of a destination: that of the session, not inside its job.
func (inv *invocation) loginNode(ctx context.Context, name string) (api.StreamRequest, error) {
	st, err := inv.ensureAgent(ctx)
	return api.StreamRequest{Host: parseDestination(readConfig(inv.paths), st, name).Host}, err
}

// withNearSession adds to the error for a name that is no host the session that the user
// probably meant: the agent was asked for a host, and suggests only those.
func (inv *invocation) withNearSession(name string, err error) error {
	cfg := readConfig(inv.paths)
	_, known := knownDestination(cfg, api.Status{}, name)
	near := suggest.Nearest(strings.TrimSuffix(name, aliasSuffix), configuredSessions(cfg))
	if known || len(near) == 0 || !api.HasCode(err, api.CodeUnknownHost) || strings.Contains(hintOf(err), "did you mean") {
		return err
	}
	return api.ReplaceHint(err, "did you mean the session %s?", near[0])
}

// refuseSession refuses the name of a session where a host is expected, and says which
// host that is. A host of the same name is fine.
func (inv *invocation) refuseSession(name string) error {
	cfg := readConfig(inv.paths)
	s, isSession := cfg.Session(name)
	if !isSession || slices.Contains(knownHosts(cfg), name) {
		return nil
	}
	command := append([]string{inv.Command.HelpName}, inv.Args().Slice()...)
	if i := slices.Index(command, name); i >= 0 {
		command[i] = s.Host
	}
	return api.Errorf(api.CodeUsage, "%s is a session, not a host", name).
		WithHint("its host is %s: `%s`", s.Host, strings.Join(command, " "))
}

// parseDestination reads HOST, SESSION, NODE.HOST, NODE.SESSION, or one of these with .tun.
// A session is inside its job, or its host if it has none. A host of the config has
// priority over a session of the same name; any other name may be an alias of ~/.ssh/config.
func parseDestination(cfg *configs.Config, st api.Status, name string) api.StreamRequest {
	name = strings.TrimSuffix(name, aliasSuffix)
	if req, ok := knownDestination(cfg, st, name); ok {
		return req
	}
	if node, rest, ok := strings.Cut(name, "."); ok {
		if req, ok := knownDestination(cfg, st, rest); ok {
			req.Node = node
			return req
		}
	}
	return api.StreamRequest{Host: name}
}

func knownDestination(cfg *configs.Config, st api.Status, name string) (api.StreamRequest, bool) {
	if slices.Contains(knownHosts(cfg), name) { // it has priority over a session of that name
		return api.StreamRequest{Host: name}, true
	}
	if s, ok := cfg.Session(name); ok {
		req := api.StreamRequest{Host: s.Host}
		if configuresJob(s) {
			req.Session = name
		}
		return req, true
	}
	if s, ok := st.Session(name); ok { // attached, or ad hoc
		return api.StreamRequest{Host: s.Host, Session: name}, true
	}
	return api.StreamRequest{}, false
}

// configuresJob reports whether a session has a job, and not only forwards.
func configuresJob(s configs.Session) bool { return s.Submit != "" || s.Job != "" }

// jobSessions are the sessions of the config that ssh reaches as SESSION.tun: those with a
// job whose name is not that of a host.
func jobSessions(cfg *configs.Config) []configs.Session {
	hosts := knownHosts(cfg)
	return slices.DeleteFunc(slices.Clone(cfg.Sessions), func(s configs.Session) bool {
		_, isHost := slices.BinarySearch(hosts, s.Name)
		return !configuresJob(s) || isHost
	})
}

// isAddress reports whether text is NODE:PORT: no job id has a colon.
func isAddress(text string) bool { return localPortFor(text) > 0 }

// localPortFor is the port on this machine for NODE:PORT: the same one, unless only an
// administrator may use that. It is 0 if the text is something else.
func localPortFor(address string) uint64 {
	const reserved, instead = 1024, 8000
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || host == "" || bad != nil || n == 0:
		return 0
	case n < reserved:
		return n + instead
	}
	return n
}
