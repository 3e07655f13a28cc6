package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// fixed is a forward with a fixed target.
type fixed struct {
	spec  configs.ForwardSpec
	added bool // by a person, and in no config
	stop  context.CancelFunc
	served
}

// Status reports what the forward has relayed.
func (x *fixed) Status() api.Forward {
	st := x.served.Status()
	st.Added = x.added
	return st
}

// target is the forward's target; nil if nobody dials it.
func (x *fixed) target(dialer forward.Dialer) *forward.Target {
	if dialer == nil {
		return nil
	}
	return &forward.Target{Dialer: dialer, Network: network(x.spec.Target), Address: x.spec.Target}
}

// fixedSpecs are the forwards of the config.
func (s *session) fixedSpecs(ctx context.Context) ([]configs.ForwardSpec, error) {
	cfg := s.config()
	if cfg.ForwardSSHConfig {
		return s.sshForwards(ctx, cfg.Host)
	}
	return cfg.Forward, nil
}

// openFixed opens a forward with a fixed target.
func (s *session) openFixed(fwd *forwards, spec configs.ForwardSpec, added bool, rec state.Session) error {
	f, err := s.openSpec(spec, rec.Ports[spec.String()])
	if err != nil {
		return api.Errorf(api.CodeForward, "forward %s: %w", spec, err)
	}
	fwd.fixed = append(fwd.fixed, &fixed{spec: spec, added: added, served: f})
	return nil
}

func (s *session) openSpec(spec configs.ForwardSpec, last int) (served, error) {
	if spec.Kind == api.ForwardRemote {
		return forward.NewRemote(forward.RemoteOptions{
			Name: s.name, Listen: s.agent.pool.Host(s.cfg.Host).Listen,
			Network: network(spec.Listen), Address: spec.Listen,
			LocalNetwork: network(spec.Target), LocalAddress: spec.Target,
			Changed: func() { s.change(func(*facts) {}) },
			Log:     s.agent.log,
		}), nil
	}
	o := forward.ListenOptions{Kind: spec.Kind}
	if network(spec.Listen) == "unix" {
		o.UnixPath = spec.Listen
		return s.openListener(o)
	}
	bind, port, err := net.SplitHostPort(spec.Listen)
	if err != nil {
		return nil, err
	}
	if o.Port, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	if spec.PicksPort() {
		o.Last = last
	}
	switch bind {
	case "127.0.0.1", "localhost": // the loopback pair, ::1 included, is the default
	case "":
		o.Bind = "*"
	default:
		o.Bind = bind
	}
	return s.openListener(o)
}

// network is the network of an address: a path is a unix socket.
func network(address string) string {
	if strings.ContainsRune(address, '/') {
		return "unix"
	}
	return "tcp"
}

// sshForwards are the forwards of a host in the person's ssh_config.
func (s *session) sshForwards(ctx context.Context, host string) ([]configs.ForwardSpec, error) {
	settings, err := s.agent.pool.Settings(ctx, host)
	if err != nil {
		return nil, err
	}
	var specs []configs.ForwardSpec
	var errs []error
	add := func(kind api.ForwardKind, lines []string) {
		for _, line := range lines {
			spec, err := sshForward(kind, line)
			specs, errs = append(specs, spec), append(errs, err)
		}
	}
	add(api.ForwardLocal, settings.LocalForwards)
	add(api.ForwardRemote, settings.RemoteForwards)
	add(api.ForwardDynamic, settings.DynamicForwards)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, api.Errorf(api.CodeConfig, "no forwards for %s in the ssh config", host).
			WithHint(`add LocalForward lines there, or set forward = ["5432:db.int:5432"] in the config`)
	}
	return specs, nil
}

// sshForward parses "8080 [db.int]:80", as ssh -G prints a forward.
func sshForward(kind api.ForwardKind, line string) (configs.ForwardSpec, error) {
	words := strings.Fields(line)
	if len(words) == 0 || len(words) > 2 {
		return configs.ForwardSpec{}, fmt.Errorf("ssh config: cannot read forward %q", line)
	}
	spec := configs.ForwardSpec{Kind: kind, Listen: words[0]}
	if _, err := strconv.Atoi(words[0]); err == nil {
		spec.Listen = net.JoinHostPort("localhost", words[0])
	}
	if len(words) == 2 {
		host, port, err := net.SplitHostPort(words[1])
		if err != nil {
			spec.Target = words[1] // a socket
		} else {
			spec.Target = net.JoinHostPort(host, port)
		}
	}
	return spec, nil
}
