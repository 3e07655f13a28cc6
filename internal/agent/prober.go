package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/tunnel/forward"
)

// probeTarget is what to prove: the endpoint that the log announced, or that a command can
// be run inside the job; and where the job runs.
type probeTarget struct {
	finding detect.Finding
	shell   bool // there is no endpoint
	job     string
	node    string
	files   *jobwatch.RuntimeFiles
}

// sameAs reports whether two targets are one announcement.
func (t *probeTarget) sameAs(o *probeTarget) bool {
	return t.node == o.node && t.finding.Endpoint == o.finding.Endpoint
}

// prober proves that an announced endpoint answers through the connection before the
// session is called ready, and proves it again after the connection was lost.
type prober struct {
	session *session
	nodes   *jobNodes
	target  *probeTarget      // as last set; of the caller of setTarget
	targets chan *probeTarget // to serve
	results chan probeResult
	refused chan struct{} // receives when a person's connection was refused

	// Of serve alone:
	incompleteSince time.Time // when a server first answered whose token or path is not known yet
}

// probeResult is what the prober found out: a proven route, or why there is none.
type probeResult struct {
	target       *probeTarget
	route        *route // nil: the target does not respond
	doing        string // what to show then
	suspected    bool   // the route was proven before, and a connection over it failed
	disconnected bool   // the proof ended because the connection to the host was lost
}

func newProber(s *session, nodes *jobNodes) *prober {
	return &prober{
		session: s, nodes: nodes, targets: make(chan *probeTarget, 1), results: make(chan probeResult), refused: make(chan struct{}, 1),
	}
}

// setTarget sets what to prove; nil for nothing. The same announcement again changes
// nothing.
func (p *prober) setTarget(t *probeTarget) {
	if t != nil && p.target != nil && t.sameAs(p.target) {
		return
	}
	p.target = t
	offer(p.targets, t)
}

// serve probes until the target answers, then waits for a new target, a lost connection
// or a refused one.
func (p *prober) serve(ctx context.Context) {
	var target *probeTarget
	var since time.Time
	proven, suspected := false, false
	for {
		changed := p.nodes.host.Changed()
		up := p.nodes.host.Status().State == api.HostUp
		if !up && proven {
			proven = false
			p.send(ctx, probeResult{disconnected: true})
		}
		var retry <-chan time.Time
		if target != nil && up && !proven {
			result := p.prove(ctx, target, since)
			if proven = result.route != nil; !proven {
				retry = time.After(p.pause(target, since))
				result.suspected = suspected
			}
			suspected = false
			p.send(ctx, result)
		}
		select {
		case target = <-p.targets: // what answered stays open until the new target was probed, which is at once
			since, proven, p.incompleteSince = time.Now(), false, time.Time{}
		case <-p.refused:
			if proven {
				since, proven, suspected, p.incompleteSince = time.Now(), false, true, time.Time{}
			}
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

func (p *prober) send(ctx context.Context, r probeResult) {
	select {
	case p.results <- r:
	case <-ctx.Done():
	}
}

// pause is how long to wait before the next probe: a server comes up within seconds of
// its announcement, or takes long. A command inside the job may cost a step or a login.
func (p *prober) pause(t *probeTarget, since time.Time) time.Duration {
	every, slow := p.session.agent.limits.ProbeEvery, p.session.agent.limits.ProbeSlow
	if t.shell {
		every, slow = slow, 6*slow
	}
	if time.Since(since) < time.Minute {
		return every
	}
	return slow
}

// prove probes the target once over each route that may lead there.
func (p *prober) prove(ctx context.Context, t *probeTarget, since time.Time) probeResult {
	if t.shell {
		inside := route{inside: p.session.runInside, refused: p.refused}
		if err := p.probeRoute(ctx, inside); err != nil {
			return probeResult{target: t, doing: fmt.Sprintf("no command runs inside job %s on %s yet: %v", t.job, t.node, err)}
		}
		return probeResult{target: t, route: &inside}
	}
	ep, err := p.resolve(ctx, t, since)
	if err != nil {
		return p.unproven(t, ep, err)
	}
	if ep.TakesOneClient() {
		// It must not be probed: the person's own connection tries the routes, all of them, as
		// after a long time.
		all := p.routes(ctx, t, ep, time.Time{})
		if len(all) == 0 {
			return p.unproven(t, ep, errNoNode)
		}
		first := all[0]
		first.dialer, first.refused = &firstRoute{all}, nil // a probe after a refusal would find nothing out
		return probeResult{target: t, route: &first}
	}
	works, failed, err := p.try(ctx, p.routes(ctx, t, ep, since), since)
	switch {
	case works != nil:
		p.findAudience(ctx, t, &works.endpoint)
		return probeResult{target: t, route: works}
	case err == nil:
		return p.unproven(t, ep, errNoNode)
	}
	return p.unproven(t, failed, err)
}

// try probes the routes in order, and returns the first that works; else what was tried on
// the node, or first. A server that just announced itself and refuses on its own node does
// not listen yet: the other routes can prove no more.
func (p *prober) try(ctx context.Context, routes []route, since time.Time) (works *route, failed api.Endpoint, err error) {
	early := time.Since(since) < p.session.agent.limits.NodeGrace
	refused := false // on the node
	for _, r := range routes {
		onNode := r.endpoint.Reach == api.ReachNode
		if refused && early && !onNode {
			break
		}
		fault := p.probeRoute(ctx, r)
		if fault == nil {
			return &r, failed, nil
		}
		if err == nil || onNode {
			failed, err = r.endpoint, fault
		}
		refused = refused || onNode && errors.Is(fault, errNoListener)
		if ctx.Err() != nil || errors.Is(fault, api.ErrDown) {
			break
		}
	}
	return nil, failed, err
}

// audienceTimeout bounds the connection to a page that is not meant to be reached from
// outside its node. A person waits meanwhile.
const audienceTimeout = 2 * time.Second

// findAudience finds out whether a page without a password is open to the cluster's network,
// because its server listens on all addresses of the node.
func (p *prober) findAudience(ctx context.Context, t *probeTarget, ep *api.Endpoint) {
	switch {
	case ep.OpenTo == "" || ep.Socket != "":
		return
	case ep.Reach == api.ReachLogin: // the login node has reached it
		ep.OpenTo = api.OpenToNetwork
		return
	case ep.Reach != api.ReachNode:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, audienceTimeout)
	defer cancel()
	for _, name := range p.nodes.dialNames(ctx, "", t.node, time.Now()) {
		conn, err := p.nodes.host.Dial(ctx, "tcp", net.JoinHostPort(name, strconv.Itoa(ep.Port)))
		if err == nil {
			_ = conn.Close()
			ep.OpenTo = api.OpenToNetwork
			return
		}
	}
}

// errNoNode is why there is no route.
var errNoNode = errors.New("the node of the job is not known yet")

// unproven is the result for a target that does not respond.
func (p *prober) unproven(t *probeTarget, ep api.Endpoint, err error) probeResult {
	p.session.agent.log.Debug("endpoint does not respond", "session", p.session.name, "address", ep.Address(), "reach", ep.Reach, "err", err)
	where := ep.Address()
	if ep.Reach == api.ReachNode && t.node != "" {
		where += " on " + t.node
	}
	return probeResult{target: t, doing: fmt.Sprintf("%s does not respond yet: %v", where, err)}
}

// probeRoute probes the endpoint over one route. A server whose token or path is not in
// its log is ready after a while all the same: it has a login page. The while begins
// with its first response: a server on a busy node may take minutes to start, and its
// log line comes right after.
func (p *prober) probeRoute(ctx context.Context, r route) error {
	limits := &p.session.agent.limits
	limit := limits.Probe
	if r.endpoint.Reach == api.ReachNode || r.inside != nil {
		limit = limits.NodeProbe
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := r.probe(ctx)
	if !isIncomplete(err) {
		return err
	}
	if p.incompleteSince.IsZero() {
		p.incompleteSince = time.Now()
	}
	if time.Since(p.incompleteSince) > limits.TokenGrace {
		return nil
	}
	return err
}

// resolve turns an announcement into an endpoint. It reads the runtime file where the
// log leaves doubt.
func (p *prober) resolve(ctx context.Context, t *probeTarget, since time.Time) (api.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, p.session.agent.limits.Probe)
	defer cancel()
	f := t.finding
	if f.Doubt {
		f = t.files.Correct(ctx, f, time.Since(since) > p.session.agent.limits.TokenGrace)
	}
	ep := f.Endpoint
	if f.Doubt && f.RuntimeFile != "" && f.App != "jupyter" && time.Since(since) < p.session.agent.limits.TokenGrace {
		return ep, errTokenUnknown // a network file system shows the log before the file with the password
	}
	if ep.Port == 0 && ep.Socket == "" {
		return ep, errors.New("the port of the server is not known yet")
	}
	return ep, nil
}

// verifyTimeout bounds the probe that an up waits for: the command waits for the agent
// only a few seconds longer.
const verifyTimeout = 5 * time.Second

// verify probes the page of a ready session once more, for a person who wants to use it
// now: its job may have been cancelled a moment ago, and the scheduler is not queried
// that often.
func (s *session) verify(ctx context.Context) {
	s.mu.Lock()
	r, ready := s.route, s.current.State == api.SessionReady && s.facts.Link == ""
	s.mu.Unlock()
	if r == nil || !ready {
		return
	}
	probing, cancel := context.WithTimeout(ctx, min(verifyTimeout, s.agent.limits.Probe))
	defer cancel()
	err := r.probe(probing)
	if err == nil || isIncomplete(err) || ctx.Err() != nil {
		return // it responds, or the person has left and nothing is known
	}
	what := r.endpoint.Address()
	if r.inside != nil {
		what = "the job"
	}
	s.agent.log.Info("the page or the job no longer responds", "session", s.name, "err", err)
	s.change(func(f *facts.Facts) {
		if s.route == r && f.Answers {
			f.Answers, f.Doing = false, fmt.Sprintf("%s no longer responds: %v", what, err)
		}
	})
	signal(r.refused)
}

// probe sends one real request to an endpoint through dialer. A listener that only
// accepts proves nothing: sshd accepts for a forward that it then forbids.
func probe(ctx context.Context, dialer forward.Dialer, ep api.Endpoint) error {
	if ep.TakesOneClient() {
		return nil // the probe would be that client, and a second one is refused
	}
	if ep.Scheme != "" && ep.Scheme != "http" && ep.Scheme != "https" {
		network, address := dialAddress(ep)
		conn, err := dialer.Dial(ctx, network, address)
		if err != nil {
			return dialError(err)
		}
		return conn.Close()
	}
	res, err := get(ctx, dialer, ep, "")
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	locked := res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusUnauthorized
	switch {
	case locked && ep.Token.IsZero():
		return errTokenUnknown
	case locked:
		return fmt.Errorf("the server refuses the token from the log (%s)", res.Status)
	case res.StatusCode == http.StatusNotFound && ep.App == "jupyter":
		return errPathUnknown
	case res.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("the server answers %s", res.Status)
	}
	return nil
}

// dialAddress is where an endpoint is dialled.
func dialAddress(ep api.Endpoint) (network, address string) {
	if ep.Socket != "" {
		return "unix", ep.Address()
	}
	return "tcp", ep.Address()
}

// get sends the request of a probe to an endpoint through dialer, or one to a path relative to
// it, over its own connection. The caller closes the body.
func get(ctx context.Context, dialer forward.Dialer, ep api.Endpoint, path string) (*http.Response, error) {
	req, err := probeRequest(ctx, ep)
	if err == nil && path != "" {
		req.URL, err = req.URL.Parse(path)
	}
	if err != nil {
		return nil, err
	}
	network, address := dialAddress(ep)
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.Dial(ctx, network, address) },
		DisableKeepAlives: true,
		// A notebook signs its own certificate; SSH protects the connection.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	res, err := transport.RoundTrip(req) // not a Client: a redirect is a response too
	if err != nil {
		return nil, dialError(err)
	}
	return res, nil
}

// errTokenUnknown says that a server answers and requires a token that is not known, or
// not yet: a log has the address before the token.
var errTokenUnknown = errors.New("the server requires a token, and the log does not contain one yet")

// errPathUnknown says that a Jupyter server answers, but not below the path that is
// known so far: what a job prints comes before what its server prints, and lacks the base URL.
var errPathUnknown = errors.New("the server uses another base path, and the log does not contain it yet")

// errNoListener says that the machine was reached, and that no server listens there.
var errNoListener = errors.New("nothing listens there")

// isIncomplete reports whether a server answers and only its token or path is missing.
func isIncomplete(err error) bool {
	return errors.Is(err, errTokenUnknown) || errors.Is(err, errPathUnknown)
}

// probeRequest asks Jupyter for its status, and any other server for the page that a
// person would open.
func probeRequest(ctx context.Context, ep api.Endpoint) (*http.Request, error) {
	u := ep.PageURL("localhost") // Jupyter checks the Host header
	if ep.App == "jupyter" {
		u.Path = jupyterBase(u.Path) + "api/status"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil) //nolint:gosec // what the job announced is what is to be probed
	if err == nil && ep.App == "jupyter" && !ep.Token.IsZero() {
		req.Header.Set("Authorization", "token "+ep.Token.Reveal())
	}
	return req, err
}

// jupyterBase is the server's base URL within the path of one of its pages.
func jupyterBase(path string) string {
	for _, page := range []string{"lab", "tree", "notebooks", "login"} {
		if base, ok := strings.CutSuffix(strings.TrimSuffix(path, "/"), "/"+page); ok {
			return base + "/"
		}
	}
	return strings.TrimSuffix(path, "/") + "/"
}

// dialError explains a failed dial to a person.
func dialError(err error) error {
	switch {
	case errors.Is(err, api.ErrProhibited):
		return errors.New("the host does not allow forwarding to this address")
	case errors.Is(err, api.ErrRefused):
		return errNoListener
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no response within the time limit")
	}
	return err
}

// proveShell has the prober run a command inside a job that serves no page, once it is
// known where the job runs.
func (r *jobRun) proveShell(job api.Job) {
	if job.State != api.JobRunning || job.Node == "" || r.prober.target != nil {
		return
	}
	r.session.show("running a command inside job %s on %s", job.ID, job.Node)
	r.prober.setTarget(&probeTarget{shell: true, job: job.ID, node: job.Node})
}

// runInside runs a command inside the session's job that does nothing.
func (s *session) runInside(ctx context.Context) error {
	node, err := s.jobMachine(ctx, "")
	if err != nil {
		return err
	}
	ch, requests, err := node.OpenChannel(ctx, "session", nil)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ch.Close() })()
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"true"}))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case !ok:
		return errors.New("no command may be run there")
	}
	return exitStatus(ctx, requests)
}

// exitStatus waits for the end of a channel's command (RFC 4254, 6.10).
func exitStatus(ctx context.Context, requests <-chan *ssh.Request) error {
	for {
		select {
		case r, open := <-requests:
			var exit struct{ Status uint32 }
			switch {
			case !open:
				return errors.New("the command did not report how it ended")
			case r.Type != "exit-status":
			case ssh.Unmarshal(r.Payload, &exit) == nil && exit.Status == 0:
				return nil
			default:
				return fmt.Errorf("the command `true` ended with status %d", exit.Status)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// noPageError is the error for the page of a session that has none.
func (s *session) noPageError() *api.Error {
	return api.Errorf(api.CodeUsage, "session %s has no page: it is for work inside its job", s.name).
		WithHint("`tunctl ssh %s` opens a shell there, `tunctl code %s` an editor", s.name, s.name)
}
