package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// fixed is a forward with a fixed target.
type fixed struct {
	spec configs.ForwardSpec
	served
}

// fixedSpecs are the forwards of a session without a job.
func (s *session) fixedSpecs(ctx context.Context) ([]configs.ForwardSpec, error) {
	s.mu.Lock()
	cfg := s.cfg
	s.mu.Unlock()
	if cfg.ForwardSSHConfig {
		return s.sshForwards(ctx, cfg.Host)
	}
	return cfg.Forward, nil
}

// openFixed opens all forwards, or none.
func (s *session) openFixed(specs []configs.ForwardSpec) (*forwards, error) {
	fwd := &forwards{}
	for _, spec := range specs {
		f, err := s.openSpec(spec)
		if err != nil {
			fwd.release()
			return nil, &api.Error{Code: api.CodeForward, Message: fmt.Sprintf("forward %s: %v", spec, err), Err: err}
		}
		fwd.fixed = append(fwd.fixed, fixed{spec: spec, served: f})
	}
	return fwd, nil
}

func (s *session) openSpec(spec configs.ForwardSpec) (served, error) {
	if spec.Kind == api.ForwardRemote {
		return forward.NewRemote(forward.RemoteOptions{
			Name: s.name, Listen: s.agent.pool.Host(s.cfg.Host).Listen,
			Network: network(spec.Listen), Address: spec.Listen,
			LocalNetwork: network(spec.Target), LocalAddress: spec.Target,
			Changed: func() { s.change(func(*facts) {}) },
			Log:     s.agent.log,
		}), nil
	}
	o := forward.ListenOptions{Name: s.name, Kind: spec.Kind, Shared: s.cfg.Shared, Hosts: s.cfg.AllowHosts, Log: s.agent.log}
	if network(spec.Listen) == "unix" {
		o.UnixPath = spec.Listen
		return forward.Listen(o)
	}
	bind, port, err := net.SplitHostPort(spec.Listen)
	if err != nil {
		return nil, err
	}
	if o.Port, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	switch bind {
	case "127.0.0.1", "localhost": // the loopback pair, ::1 included, is the default
	case "":
		o.Bind = "*"
	default:
		o.Bind = bind
	}
	return forward.Listen(o)
}

// release closes the listeners of a session that failed to start.
func (f *forwards) release() {
	for _, x := range f.fixed {
		if l, ok := x.served.(*forward.Forward); ok {
			_ = l.Close()
		}
	}
}

// open accepts connections.
func (x fixed) open(dialer forward.Dialer) {
	if f, ok := x.served.(*forward.Forward); ok {
		f.Open(forward.Target{Dialer: dialer, Network: network(x.spec.Target), Address: x.spec.Target})
	}
}

// withdraw holds connections, or rejects them with a reason. The listener of a remote
// forward ends with the connection to the host.
func (x fixed) withdraw(why forward.Reason) {
	if f, ok := x.served.(*forward.Forward); ok {
		f.Withdraw(why)
	}
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
		return nil, &api.Error{
			Code: api.CodeConfig, Message: fmt.Sprintf("no forwards for %s in the ssh config", host),
			Hint: "add LocalForward lines there, or set forward = [\"5432:db.int:5432\"] in the config",
		}
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
