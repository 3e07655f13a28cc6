package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// aim is an endpoint to prove: what the log announced, and the node the job is on.
type aim struct {
	finding jobwatch.Finding
	node    string
}

// prober proves that an announced endpoint answers through the connection before
// the session is called ready, and proves it again after the link was lost.
type prober struct {
	session *session
	host    *tunnel.Host
	aims    chan *aim
	last    *aim // what aim was last told; its caller's own
	// answered is told whenever the endpoint has been proven.
	answered chan struct{}
}

func newProber(s *session, host *tunnel.Host) *prober {
	return &prober{session: s, host: host, aims: make(chan *aim, 1), answered: make(chan struct{}, 1)}
}

// aim points the prober at what the log announced; nil at nothing. The same
// announcement read again changes nothing.
func (p *prober) aim(a *aim) {
	if a != nil && p.last != nil && a.node == p.last.node && a.finding.Endpoint == p.last.finding.Endpoint {
		return
	}
	p.last = a
	offer(p.aims, a)
}

// serve tries until the endpoint answers, then waits for a new aim or a lost link.
func (p *prober) serve(ctx context.Context) {
	var target *aim
	var since time.Time
	proven := false
	for {
		changed := p.host.Changed()
		up := p.host.Status().State == api.HostUp
		if !up && proven {
			proven = false
			p.session.change(func(f *facts) { f.answers = false })
		}
		var retry <-chan time.Time
		if target != nil && up && !proven {
			if proven = p.try(ctx, target, since); !proven {
				retry = time.After(p.pause(since))
			}
		}
		select {
		case target = <-p.aims:
			since, proven = time.Now(), false
			p.session.change(func(f *facts) { f.answers = false })
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// pause is how long to wait before the next try: a server comes up within
// seconds of its announcement, or takes its time.
func (p *prober) pause(since time.Time) time.Duration {
	if time.Since(since) < time.Minute {
		return p.session.agent.limits.ProbeEvery
	}
	return p.session.agent.limits.ProbeSlow
}

// try asks the endpoint once and notes what came of it. A server whose token the
// log keeps to itself is ready after a while all the same: it has a login page.
func (p *prober) try(ctx context.Context, a *aim, since time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, p.session.agent.limits.Probe)
	defer cancel()
	ep, err := p.resolve(ctx, a)
	if err == nil {
		err = probe(ctx, p.host, ep)
	}
	if errors.Is(err, errLocked) && time.Since(since) > p.session.agent.limits.TokenGrace {
		err = nil
	}
	if err != nil {
		p.session.agent.log.Debug("endpoint does not answer", "session", p.session.name, "address", ep.Address(), "err", err)
		p.session.change(func(f *facts) {
			f.answers = false
			f.doing = fmt.Sprintf("%s does not answer yet: %v", ep.Address(), err)
		})
		return false
	}
	offer(p.answered, struct{}{})
	p.session.change(func(f *facts) { f.endpoint, f.answers, f.doing = &ep, true, "" })
	return true
}

// resolve turns an announcement into an address: the runtime file is asked where
// the log leaves doubt, and the scheduler's node stands in for a host that a log
// cannot know.
func (p *prober) resolve(ctx context.Context, a *aim) (api.Endpoint, error) {
	f := a.finding
	if f.Doubt && f.RuntimeFile != "" {
		if ep, err := p.runtimeFile(ctx, f.RuntimeFile); err == nil {
			f = f.WithRuntime(ep)
		}
	}
	ep := f.Endpoint
	ep.Guess = f.Low
	if ep.Port == 0 && ep.Socket == "" {
		return ep, errors.New("its port is not known yet")
	}
	if ep.NeedsNode && a.node != "" {
		ep.NeedsNode = false
		if ep.Reach != api.ReachNode {
			ep.Host = a.node
		}
	}
	if ep.Reach == api.ReachNode && sameMachine(a.node, p.host.Status().LoginNode) {
		ep.Reach = api.ReachHere // a plain machine: its loopback is the one we are on
	}
	if ep.Reach == api.ReachNode {
		return ep, fmt.Errorf("it listens only inside its node %s (%s); bind it to the node's own name, such as --ip=$(hostname)", a.node, ep.Host)
	}
	if ep.Reach == "" || ep.Reach == api.ReachAuto {
		ep.Reach = api.ReachLogin
	}
	return ep, nil
}

// sameMachine compares two names of machines, with or without a domain.
func sameMachine(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a != "" && strings.EqualFold(a, b)
}

func (p *prober) runtimeFile(ctx context.Context, path string) (api.Endpoint, error) {
	data, err := jobwatch.ReadFile(ctx, runner{p.host}, path)
	if err != nil {
		return api.Endpoint{}, err
	}
	return jobwatch.ParseRuntimeFile(data)
}
