package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/tunnel"
)

// aim is an endpoint to prove: what the log announced, the job, and the node it is on.
type aim struct {
	finding detect.Finding
	job     string
	node    string
	files   *jobwatch.RuntimeFiles
}

// prober proves that an announced endpoint answers through the connection before
// the session is called ready, and proves it again after the link was lost.
type prober struct {
	session *session
	host    *tunnel.Host
	aims    chan *aim
	last    *aim // what aim was last told; its caller's own
	// answered is told whenever the endpoint has been proven, lapsed when it no longer
	// is although the link is there.
	answered chan struct{}
	lapsed   chan struct{}
	refused  chan struct{} // told when a person's connection found nobody there

	// Of serve alone:
	node     *tunnel.Node // the way onto nodeName, once it was needed
	nodeName string
	nodeJob  string
	named    string // the node whose other names are more
	more     []string
	reticent time.Time // when a server first answered that tells its token or path in the log only
}

func newProber(s *session, host *tunnel.Host) *prober {
	return &prober{
		session: s, host: host, aims: make(chan *aim, 1),
		answered: make(chan struct{}, 1), lapsed: make(chan struct{}, 1), refused: make(chan struct{}, 1),
	}
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
	defer p.leaveNode()
	var target *aim
	var since time.Time
	proven, suspected := false, false
	for {
		changed := p.host.Changed()
		host := p.host.Status()
		up := host.State == api.HostUp
		if !up && proven {
			proven = false
			p.session.change(func(f *facts) { f.host, f.answers = host, false }) // with the reason, which may come later by itself
		}
		var retry <-chan time.Time
		if target != nil && up && !proven {
			if proven = p.try(ctx, target, since); !proven {
				retry = time.After(p.pause(since))
			}
			if !proven && suspected {
				offer(p.lapsed, struct{}{})
			}
			suspected = false
		}
		select {
		case target = <-p.aims:
			since, proven, p.reticent = time.Now(), false, time.Time{}
			if target == nil {
				p.session.change(func(f *facts) { f.answers = false })
			} // else what answered goes on until the new one was asked, which is at once
		case <-p.refused:
			if proven {
				since, proven, suspected, p.reticent = time.Now(), false, true, time.Time{}
			}
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// verifyTimeout bounds the probe that an up waits for: the command that asked waits for
// the agent no longer than a few seconds more.
const verifyTimeout = 5 * time.Second

// verify asks the endpoint of a session that is ready once more, for a person who wants to
// use it now: its job may have been cancelled a moment ago, which the scheduler is not
// asked about that often.
func (s *session) verify(ctx context.Context) {
	s.mu.Lock()
	f, state := s.facts, s.current.State
	s.mu.Unlock()
	if state != api.SessionReady || f.endpoint == nil || f.link != "" {
		return
	}
	dialer := f.dialer
	if dialer == nil {
		dialer = s.agent.pool.Host(s.host())
	}
	probing, cancel := context.WithTimeout(ctx, min(verifyTimeout, s.agent.limits.Probe))
	defer cancel()
	err := probe(probing, dialer, *f.endpoint)
	if err == nil || errors.Is(err, errLocked) || errors.Is(err, errElsewhere) || ctx.Err() != nil {
		return // it responds, or the person has left and nothing is known
	}
	s.agent.log.Info("the page no longer responds", "session", s.name, "err", err)
	s.change(func(now *facts) {
		if now.endpoint == f.endpoint && now.answers {
			now.answers, now.doing = false, fmt.Sprintf("%s no longer responds: %v", f.endpoint.Address(), err)
		}
	})
	if f.refused != nil {
		select {
		case f.refused <- struct{}{}:
		default:
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

// try asks the endpoint once, by every way that may lead there, and notes what came
// of it.
func (p *prober) try(ctx context.Context, a *aim, since time.Time) bool {
	ep, err := p.resolve(ctx, a, since)
	if err != nil {
		p.failed(ep, err)
		return false
	}
	var first error
	for _, r := range p.routes(ctx, a, ep, since) {
		err := p.ask(ctx, r)
		if err == nil {
			p.proven(r)
			return true
		}
		if first == nil || r.endpoint.Reach == api.ReachNode {
			ep, first = r.endpoint, err
		}
		if ctx.Err() != nil || errors.Is(err, api.ErrDown) {
			break
		}
	}
	if first == nil {
		first = errors.New("the node of the job is not known yet")
	}
	p.failed(ep, first)
	return false
}

// ask asks the endpoint by one way. A server whose token or path the log keeps to
// itself is ready after a while all the same: it has a login page. The while begins with
// its first answer: a server on a busy node may take minutes to start, and its log line
// comes right after.
func (p *prober) ask(ctx context.Context, r route) error {
	limits := &p.session.agent.limits
	limit := limits.Probe
	if r.endpoint.Reach == api.ReachNode {
		limit = limits.NodeProbe
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := probe(ctx, r.dialer, r.endpoint)
	if !errors.Is(err, errLocked) && !errors.Is(err, errElsewhere) {
		return err
	}
	if p.reticent.IsZero() {
		p.reticent = time.Now()
	}
	if time.Since(p.reticent) > limits.TokenGrace {
		return nil
	}
	return err
}

// proven notes that the endpoint answers, and how.
func (p *prober) proven(r route) {
	_ = p.session.record(func(rec *state.Session) { rec.Reach = r.endpoint.Reach }, nil)
	offer(p.answered, struct{}{})
	p.session.change(func(f *facts) {
		f.endpoint, f.dialer, f.answers, f.doing = &r.endpoint, r.dialer, true, ""
		f.refused = p.refused
	})
}

// failed notes that the endpoint does not answer.
func (p *prober) failed(ep api.Endpoint, err error) {
	p.session.agent.log.Debug("endpoint does not respond", "session", p.session.name, "address", ep.Address(), "reach", ep.Reach, "err", err)
	p.session.change(func(f *facts) {
		f.answers = false
		f.doing = fmt.Sprintf("%s does not respond yet: %v", ep.Address(), err)
		if ep.Reach == api.ReachNode {
			f.doing = fmt.Sprintf("%s on %s does not respond yet: %v", ep.Address(), p.nodeName, err)
		}
	})
}

// resolve turns an announcement into an endpoint: the runtime file is asked where
// the log leaves doubt.
func (p *prober) resolve(ctx context.Context, a *aim, since time.Time) (api.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, p.session.agent.limits.Probe)
	defer cancel()
	f := a.finding
	if f.Doubt {
		f = a.files.Correct(ctx, f, time.Since(since) > p.session.agent.limits.TokenGrace)
	}
	ep := f.Endpoint
	ep.Guess = f.Low
	if ep.Port == 0 && ep.Socket == "" {
		return ep, errors.New("the port of the server is not known yet")
	}
	return ep, nil
}
