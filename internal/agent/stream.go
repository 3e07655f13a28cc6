package agent

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/stream"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/tunnel"
)

// streamTimeout bounds how long the host of a stream may take to connect, including
// the time that the user needs to answer its questions.
const streamTimeout = 3 * time.Minute

// handleStream opens the backend first, so that its errors are ordinary responses;
// then the connection becomes the stream.
func (a *server) handleStream(w http.ResponseWriter, r *http.Request) {
	var req api.StreamRequest
	err := localapi.Decode(w, r, &req)
	if err == nil && r.Header.Get("Upgrade") != api.StreamUpgrade {
		err = api.Errorf(api.CodeUsage, "a stream needs the header Upgrade: %s", api.StreamUpgrade)
	}
	var to stream.Backend
	if err == nil {
		a.Hosts.UseEnv(req.Env)
		to, err = a.openStream(r.Context(), req)
	}
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	client, err := stream.Upgrade(w, to.Notice)
	if err != nil {
		to.Close()
		a.Log.Error("cannot open a stream", "err", err)
		return
	}
	ctx := a.Ctx
	a.Work.Go(func() {
		if !req.Spare { // its client can do without it
			open := &api.OpenStream{Kind: req.Kind, Host: req.Host, Session: req.Session}
			a.streams.Store(open, nil)
			defer a.streams.Delete(open)
		}
		defer func() { _ = client.Close() }()
		defer to.Close()
		to.Serve(ctx, client)
	})
}

func (a *server) openStream(ctx context.Context, req api.StreamRequest) (stream.Backend, error) {
	if req.Session != "" {
		return a.openInside(ctx, req)
	}
	h, err := a.streamHost(ctx, req)
	if err != nil {
		return stream.Backend{}, err
	}
	if req.Node == "" {
		return stream.Open(ctx, h, req, a.streamOptions(req.Host, nil))
	}
	node, release := h.Node(req.Node)
	connecting, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	if err := node.Await(connecting, !req.Again && !req.Unattended); err != nil {
		release()
		return stream.Backend{}, err
	}
	to, err := stream.Open(ctx, node, req, a.streamOptions(api.HostLabel(req.Host+","+req.Node), nil))
	if err != nil {
		release()
		return stream.Backend{}, err
	}
	end := to.Close
	to.Close = func() {
		end()
		release()
	}
	return to, nil
}

// openInside opens a stream inside a session's job, or to its host if it has no job or no
// scheduler. It never brings a session up: editors and git reconnect by timers, and would
// spend an allocation.
func (a *server) openInside(ctx context.Context, req api.StreamRequest) (stream.Backend, error) {
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return stream.Backend{}, err
	}
	which := req.Node
	req.Session, req.Host = "", s.Host()
	if !s.HasJob() {
		return a.openStream(ctx, req)
	}
	if _, err := s.RunningNodes(); err != nil {
		return stream.Backend{}, err // before anything is connected for it
	}
	req.Node = ""
	if _, err := a.streamHost(ctx, req); err != nil {
		return stream.Backend{}, err
	}
	nodes, err := s.RunningNodes() // the job may have ended while the host was connected
	if err != nil {
		return stream.Backend{}, err
	}
	m, err := nodes.Machine(ctx, which)
	if err != nil {
		return stream.Backend{}, err
	}
	to, err := stream.Open(ctx, m, req, a.streamOptions(s.Name, nodes))
	if err != nil {
		return stream.Backend{}, err
	}
	if req.Kind != api.StreamGateway { // which tells its clients itself
		to.Notice = strings.Join(nodes.TakeNotices(), "; ")
	}
	serve := to.Serve
	to.Serve = func(ctx context.Context, client stream.Client) {
		defer s.Meter.Enter()()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// When the job has ended or moved, its client would keep a connection that leads nowhere.
		defer context.AfterFunc(nodes.Context(), cancel)()
		serve(ctx, client)
	}
	return to, nil
}

// streamOptions are those of a stream on a machine, which messages call name. It is inside a job,
// or nodes is nil.
func (a *server) streamOptions(name string, nodes *jobnode.Run) stream.Options {
	return stream.Options{Name: name, Nodes: nodes, KeyFile: a.paths.Gateway(), Log: a.Log}
}

// streamHost connects the host that a stream goes to.
func (a *server) streamHost(ctx context.Context, req api.StreamRequest) (*tunnel.Host, error) {
	up := func(h api.Host) bool { return h.Alias == req.Host && h.State == api.HostUp }
	if req.Connected && !slices.ContainsFunc(a.Hosts.Pool.Hosts(), up) { // which does not add an unknown host to the pool
		return nil, api.Errorf(api.CodeUnreachable, "not connected to %s", req.Host)
	}
	if err := a.Hosts.Allowed(ctx, req.Host); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	login := a.Hosts.Pool.Host(req.Host)
	switch {
	case login.Status().State == api.HostUp:
	case connectAtOnce(login, req):
		login.UpFor(localapi.Client(ctx))
	default:
		login.Want()
	}
	return login, login.Await(ctx)
}

// connectAtOnce reports whether a host is dialled at once, because the user has just
// asked for it, or by the usual schedule. A host that needs the user is not dialled at
// once for a program: an rsync in a loop would get its owner banned.
func connectAtOnce(h *tunnel.Host, req api.StreamRequest) bool {
	state := h.Status().State
	stopped := state == api.HostNeedsLogin || state == api.HostBlocked
	return !req.Again && (!req.Unattended || !stopped)
}
