package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/internal/latest"
	"tunctl/tunnel/forward"
)

// Route is a way to an endpoint: the address, and who dials it. Of a job without an endpoint
// it is the way inside.
type Route struct {
	Endpoint api.Endpoint
	Dialer   forward.Dialer
	Limited  func() bool     // whether a connection takes a session of the host; nil: it does not
	Refused  chan<- struct{} // has the prober probe the endpoint again; nil: it does not
	// Upgrades dials for clients that ask for another protocol; nil: the Dialer does.
	Upgrades *Upgrades
	// Inside runs a command inside the job; nil: there is an endpoint.
	Inside func(context.Context) error
	// guessed is the node of an address that was not announced; nil: it was.
	guessed Node
}

// probe proves once that the route works.
func (r *Route) probe(ctx context.Context) error {
	if r.Inside != nil {
		return r.Inside(ctx)
	}
	if r.guessed != nil {
		return onceOwned(ctx, r.guessed, r.Dialer, r.Endpoint)
	}
	return Once(ctx, r.Dialer, r.Endpoint)
}

// Verify proves once more that the route works, for the user who wants to use it now. A server
// whose token or path is not known responds all the same.
func (r *Route) Verify(ctx context.Context) error {
	if err := r.probe(ctx); !isIncomplete(err) {
		return err
	}
	return nil
}

// Suspect has the prober probe the endpoint again.
func (r *Route) Suspect() { latest.Signal(r.Refused) }

// Target is what a forward to the endpoint needs to know.
func (r *Route) Target() *forward.Target {
	network, address := dialAddress(r.Endpoint)
	t := &forward.Target{
		Dialer: refusalWatch{r.Dialer, r.Refused}, Network: network, Address: address,
		HTTP: strings.HasPrefix(r.Endpoint.Scheme, "http"), Token: r.Endpoint.Token,
		Limited: r.Limited != nil && r.Limited(),
	}
	if r.Upgrades != nil {
		t.Upgrades = r.Upgrades
	}
	return t
}

// refusalWatch is a dialer that reports refused connections.
type refusalWatch struct {
	forward.Dialer
	refused chan<- struct{}
}

// Dial implements forward.Dialer.
func (w refusalWatch) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.Dialer.Dial(ctx, network, address)
	if errors.Is(err, api.ErrRefused) {
		latest.Signal(w.refused)
	}
	return conn, err
}

// unlessProhibited dials by a command on the host what that does not forward.
type unlessProhibited struct {
	forward.Dialer
	onHost Node
}

// Dial implements forward.Dialer.
func (u unlessProhibited) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := u.Dialer.Dial(ctx, network, address)
	if errors.Is(err, api.ErrProhibited) {
		if conn, err = u.onHost.Dial(ctx, network, address); err != nil {
			err = fmt.Errorf("the host does not allow forwarding, and a command there: %w", err)
		}
	}
	return conn, err
}

// firstRoute dials by the first of some routes that works. It is used by its pointer, since
// a forward compares its targets and a slice cannot be compared.
type firstRoute struct{ routes []Route }

// Dial implements forward.Dialer.
func (f *firstRoute) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var failures []error
	for _, r := range f.routes {
		conn, err := r.Dialer.Dial(ctx, network, r.Endpoint.Address())
		if err == nil {
			return conn, nil
		}
		if failures = append(failures, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failures...)
}

// Reaches are what is known about the ways to an endpoint before it is announced.
type Reaches struct {
	Config api.Reach   // of the session; final unless it is auto
	Site   []api.Reach // the site's order
	Last   api.Reach   // what worked last time
}

// order lists the ways to try now: announced is what the announcement calls for, and stuck whether
// the login node has failed to connect for a while. The node costs a login there, so it is tried
// only if the login node probably cannot connect: a server announces its address before it listens.
func (r Reaches) order(announced api.Reach, stuck bool) []api.Reach {
	switch {
	case r.Config != "" && r.Config != api.ReachAuto:
		return []api.Reach{r.Config}
	case announced == api.ReachHere:
		return []api.Reach{api.ReachHere}
	}
	list := slices.Clone(r.Site)
	if len(list) == 0 {
		list = []api.Reach{api.ReachLogin, api.ReachNode}
	}
	if announced == api.ReachNode && r.Last != api.ReachLogin {
		list = slices.DeleteFunc(list, func(x api.Reach) bool { return x == api.ReachNode })
		list = append([]api.Reach{api.ReachNode}, list...)
	}
	if list[0] != api.ReachNode && announced != api.ReachNode && r.Last != api.ReachNode && !stuck {
		list = slices.DeleteFunc(list, func(x api.Reach) bool { return x == api.ReachNode })
	}
	return list
}

// routes are the addresses to try for an endpoint, in order.
func (p *Prober) routes(ctx context.Context, t *Target, ep api.Endpoint, since time.Time) []Route {
	var list []Route
	for _, reach := range p.Job.Reaches().order(ep.Reach, time.Since(since) > p.Limits.NodeGrace) {
		if reach == api.ReachNode && p.Job.SameAsHost(t.Node) {
			reach = api.ReachHere // a machine without a scheduler: its loopback is the host's
		}
		by := Route{Dialer: p.Job.Host(), Refused: p.refused}
		var hosts []string
		var node Node
		if p.Job.SameAsHost(t.Node) {
			if onHost, err := p.Job.Node(ctx, t.Node); err == nil {
				by.Dialer = unlessProhibited{by.Dialer, onHost}
			}
		}
		switch reach {
		case api.ReachHere:
			hosts = []string{loopback(ep.Host)}
		case api.ReachNode:
			if t.Node == "" {
				continue // where the job runs is not known
			}
			var err error
			if node, err = p.Job.Node(ctx, t.Node); err != nil {
				continue // the run is over
			}
			by.Dialer, by.Limited = node, node.Limited
			hosts = addressesOnNode(ep.Host)
		default:
			hosts = p.Job.DialNames(ctx, ep.Host, t.Node, since)
		}
		if ep.Socket != "" {
			hosts = []string{""}
		}
		for i, host := range hosts {
			by.Endpoint = ep
			by.Endpoint.Host, by.Endpoint.Reach, by.Endpoint.NeedsNode = host, reach, false
			if i > 0 {
				by.guessed = node
			}
			list = append(list, by)
		}
	}
	return list
}

// addressesOnNode are the addresses to dial on the node itself, the announced one first.
func addressesOnNode(announced string) []string {
	if api.IsLocal(announced) {
		return []string{loopback(announced)}
	}
	return []string{announced, "127.0.0.1"}
}

// loopback is the loopback address to dial on a machine: "localhost" may mean ::1
// first, where the server does not listen.
func loopback(announced string) string {
	if announced == "::1" {
		return announced
	}
	return "127.0.0.1"
}

// Once sends one real request to an endpoint through dialer. A listener that only
// accepts proves nothing: sshd accepts for a forward that it then forbids.
func Once(ctx context.Context, dialer forward.Dialer, ep api.Endpoint) error {
	if ep.TakesOneClient() {
		return nil // the probe would be that client, and a second one is refused
	}
	if ep.Scheme != "" && ep.Scheme != "http" && ep.Scheme != "https" {
		network, address := dialAddress(ep)
		conn, err := dialer.Dial(ctx, network, address)
		if err != nil {
			return DialError(err)
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
		return ErrTokenUnknown
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
	return res, DialError(err)
}

// ErrTokenUnknown says that a server answers and requires a token that is not known, or
// not yet: a log has the address before the token.
var ErrTokenUnknown = errors.New("the server requires a token, and the log does not contain one yet")

// errPathUnknown says that a Jupyter server answers, but not below the path that is
// known so far: what a job prints comes before what its server prints, and lacks the base URL.
var errPathUnknown = errors.New("the server uses another base path, and the log does not contain it yet")

// errNoListener says that the machine was reached, and that no server listens there.
var errNoListener = errors.New("nothing listens there")

// isIncomplete reports whether a server answers and only its token or path is missing.
func isIncomplete(err error) bool {
	return errors.Is(err, ErrTokenUnknown) || errors.Is(err, errPathUnknown)
}

// probeRequest asks Jupyter for its status, and any other server for the page that a
// user would open.
func probeRequest(ctx context.Context, ep api.Endpoint) (*http.Request, error) {
	u := ep.PageURL("localhost") // Jupyter checks the Host header
	if ep.App == "jupyter" {
		u.Path = JupyterBase(u.Path) + "api/status"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err == nil && ep.App == "jupyter" && !ep.Token.IsZero() {
		req.Header.Set("Authorization", "token "+ep.Token.Reveal())
	}
	return req, err
}

// JupyterBase is the server's base URL within the path of one of its pages.
func JupyterBase(path string) string {
	for _, page := range []string{"lab", "tree", "notebooks", "login"} {
		if base, ok := strings.CutSuffix(strings.TrimSuffix(path, "/"), "/"+page); ok {
			return base + "/"
		}
	}
	return strings.TrimSuffix(path, "/") + "/"
}

// DialError explains a failed dial to the user; nil stays nil.
func DialError(err error) error {
	switch {
	case errors.Is(err, api.ErrProhibited):
		return fmt.Errorf("%w to this address", api.ErrProhibited)
	case errors.Is(err, api.ErrRefused):
		return errNoListener
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no response within the time limit")
	}
	return err
}

// RunInside runs a command on a node inside a job, which must succeed.
func RunInside(ctx context.Context, m gateway.Machine, command string) error {
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ch.Close() })()
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
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

// onceOwned is Once for an address of a node that was not announced. What listens there may be
// another user's server, which must not get the token.
func onceOwned(ctx context.Context, m gateway.Machine, dialer forward.Dialer, ep api.Endpoint) error {
	if ep.Token.IsZero() && ep.Password.IsZero() {
		return Once(ctx, dialer, ep)
	}
	conn, err := dialer.Dial(ctx, "tcp", ep.Address())
	if err != nil {
		return DialError(err) // usually nothing listens there, and a command costs more
	}
	_ = conn.Close()
	if err := RunInside(ctx, m, fmt.Sprintf(listensAsUser, ep.Port)); err != nil {
		return fmt.Errorf("%w: %w", errNotYours, err)
	}
	return Once(ctx, dialer, ep)
}

// errNotYours says that a server that was not announced may be another user's.
var errNotYours = errors.New("the server there may be another user's, so it is not sent the token")

// listensAsUser succeeds if all that listens on a port is the user's; 0A is the state of a listener.
// It avoids what shells read differently.
const listensAsUser = `cat /proc/self/status /proc/net/tcp /proc/net/tcp6 | awk '$1 == "Uid:" { me = $2 } ` +
	`$4 == "0A" && $2 ~ /:%04X$/ { found = 1; if ($8 - me) other = 1 } END { exit other + 1 - found }'`

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
				return fmt.Errorf("the command ended with status %d", exit.Status)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// maxBody bounds an answer of a Jupyter server.
const maxBody = 1 << 20

// jupyterTimeout bounds a question to a Jupyter server whether it is used.
const jupyterTimeout = 10 * time.Second

// LastUsed is when the Jupyter server at the route's end or one of its kernels was last
// used; zero: there is none, or no route. Both requests are such that the server does not take them for
// a use.
func (r *Route) LastUsed(ctx context.Context) (time.Time, error) {
	if r == nil || r.Inside != nil || r.Endpoint.App != "jupyter" {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, jupyterTimeout)
	defer cancel()
	var server struct {
		LastActivity time.Time `json:"last_activity"`
		Connections  int       `json:"connections"`
		Kernels      int       `json:"kernels"`
	}
	clock, err := r.jupyter(ctx, "api/status", &server)
	if err != nil {
		return time.Time{}, err
	}
	if server.Connections > 0 {
		return time.Now(), nil
	}
	if server.Kernels > 0 {
		var kernels []struct {
			State string `json:"execution_state"`
		}
		if _, err := r.jupyter(ctx, "api/kernels?no_track_activity=1", &kernels); err != nil {
			return time.Time{}, err
		}
		for _, k := range kernels {
			if k.State == "busy" {
				return time.Now(), nil
			}
		}
	}
	return time.Now().Add(-clock.Sub(server.LastActivity)), nil
}

// runsCells finds in the lab's page the extensions by which its server runs cells: @datalayer/jupyter-server-nbmodel,
// @jupyter-ai-contrib/server-documents, each under other names before, or what jupyter-collaboration sets.
var runsCells = regexp.MustCompile(`"name": *"(?:@[\w-]+/)?(?:jupyter-)?(server-nbmodel|server-documents)"|"serverSideExecution": *"?true`)

// RunsCells names the extension by which the Jupyter server at the route's end runs the cells of its pages
// itself; "": there is none, as far as its page tells, or no route.
func (r *Route) RunsCells(ctx context.Context) string {
	if r == nil || r.Inside != nil || r.Endpoint.App != "jupyter" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, jupyterTimeout)
	defer cancel()
	res, err := get(ctx, r.Dialer, r.Endpoint, "../lab")
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	page := make([]byte, maxBody)
	n, _ := io.ReadFull(res.Body, page) // it is shorter
	if found := runsCells.FindSubmatch(page[:n]); found != nil {
		return "jupyter-" + cmp.Or(string(found[1]), "collaboration")
	}
	return ""
}

// jupyter sends a request to the Jupyter server at the route's end, and returns what time
// it is there.
func (r *Route) jupyter(ctx context.Context, path string, into any) (clock time.Time, err error) {
	res, err := get(ctx, r.Dialer, r.Endpoint, "../"+path)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return time.Time{}, errors.New("the server answers " + res.Status)
	}
	if clock, err = http.ParseTime(res.Header.Get("Date")); err != nil {
		clock = time.Now()
	}
	return clock, json.NewDecoder(io.LimitReader(res.Body, maxBody)).Decode(into)
}
