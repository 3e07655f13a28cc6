package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/internal/localapi"
	"tunctl/tunnel"
)

const (
	// streamTimeout bounds how long the host of a stream may take to connect, including
	// the time that the user needs to answer its questions.
	streamTimeout = 3 * time.Minute
	// sftpTimeout is how long a copy waits for a session on the host.
	sftpTimeout = time.Minute

	streamBuffer = 128 << 10 // of one direction
)

// backend is what a stream connects a client to.
type backend struct {
	// serve copies between the two until either ends or ctx is done.
	serve  func(ctx context.Context, client streamClient)
	close  func()
	notice string // what the client is to be told at once
}

// streamClient is the client's end of a stream, over a connection that is no longer HTTP.
type streamClient struct {
	net.Conn
	read *bufio.Reader
}

// Read returns what the client sent.
func (c streamClient) Read(p []byte) (int, error) { return c.read.Read(p) }

// CloseWrite ends the direction to the client.
func (c streamClient) CloseWrite() error { return closeWrite(c.Conn) }

// handleStream opens the backend first, so that its errors are ordinary responses;
// then the connection becomes the stream.
func (a *server) handleStream(w http.ResponseWriter, r *http.Request) {
	var req api.StreamRequest
	err := localapi.Decode(w, r, &req)
	if err == nil && r.Header.Get("Upgrade") != api.StreamUpgrade {
		err = api.Errorf(api.CodeUsage, "a stream needs the header Upgrade: %s", api.StreamUpgrade)
	}
	var to backend
	if err == nil {
		a.Hosts.UseEnv(req.Env)
		to, err = a.openStream(r.Context(), req)
	}
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	client, err := upgrade(w, to.notice)
	if err != nil {
		to.close()
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
		defer to.close()
		to.serve(ctx, client)
	})
}

// upgrade takes the connection over from the HTTP server.
func upgrade(w http.ResponseWriter, notice string) (streamClient, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return streamClient{}, err
	}
	head := http.Header{"Connection": {"Upgrade"}, "Upgrade": {api.StreamUpgrade}}
	if notice != "" {
		head.Set(api.NoticeHeader, notice)
	}
	response := http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: head}
	if err = response.Write(conn); err == nil {
		err = conn.SetDeadline(time.Time{}) // the request's limits are not the stream's
	}
	if err != nil {
		_ = conn.Close()
	}
	return streamClient{Conn: conn, read: buffered.Reader}, err
}

func (a *server) openStream(ctx context.Context, req api.StreamRequest) (backend, error) {
	if req.Session != "" {
		return a.openInside(ctx, req)
	}
	h, err := a.streamHost(ctx, req)
	if err != nil {
		return backend{}, err
	}
	if req.Node == "" {
		return a.openOn(ctx, h, req, req.Host, nil)
	}
	node, release := h.Node(req.Node)
	connecting, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	var to backend
	if err = node.Await(connecting, !req.Again && !req.Unattended); err == nil {
		to, err = a.openOn(ctx, node, req, api.HostLabel(req.Host+","+req.Node), nil)
	}
	if err != nil {
		release()
		return backend{}, err
	}
	end := to.close
	to.close = func() {
		end()
		release()
	}
	return to, nil
}

// openInside opens a stream inside a session's job, or to its host if it has no job or no
// scheduler. It never brings a session up: editors and git reconnect by timers, and would
// spend an allocation.
func (a *server) openInside(ctx context.Context, req api.StreamRequest) (backend, error) {
	s, err := a.Sessions.Find(req.Session)
	if err != nil {
		return backend{}, err
	}
	which := req.Node
	req.Session, req.Host = "", s.Host()
	if !s.HasJob() {
		return a.openStream(ctx, req)
	}
	if _, err := s.RunningNodes(); err != nil && (req.Connected || !session.Rejoins(s)) {
		return backend{}, err // before anything is connected for it
	}
	req.Node = ""
	if _, err := a.streamHost(ctx, req); err != nil {
		return backend{}, err
	}
	joining, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	nodes, err := session.AwaitNodes(joining, s) // the job may have ended while the host was connected
	if err != nil {
		return backend{}, err
	}
	m, err := nodes.Machine(ctx, which)
	if err != nil {
		return backend{}, err
	}
	to, err := a.openOn(ctx, m, req, s.Name, nodes)
	if err != nil {
		return backend{}, err
	}
	if req.Kind != api.StreamGateway { // which tells its clients itself
		to.notice = strings.Join(nodes.TakeNotices(), "; ")
	}
	serve := to.serve
	to.serve = func(ctx context.Context, client streamClient) {
		defer s.Meter.Enter()()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// When the job has ended or moved, its client would keep a connection that leads nowhere.
		defer context.AfterFunc(nodes.Context(), cancel)()
		serve(ctx, client)
	}
	return to, nil
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

// openOn opens what the request asks for on a machine, which messages call name. It is inside a
// job, or nodes is nil.
func (a *server) openOn(ctx context.Context, m gateway.Machine, req api.StreamRequest, name string, nodes *jobnode.Run) (backend, error) {
	switch req.Kind {
	case api.StreamDial:
		return openDial(ctx, m, req.Address)
	case api.StreamGateway:
		return a.openGateway(m, name, nodes)
	case api.StreamSFTP:
		return openSFTP(ctx, m, name, req.Spare)
	}
	return backend{}, api.Errorf(api.CodeUsage, "unknown kind of stream %q", req.Kind)
}

// openDial connects to an address. It tells its client in the last chunk that the connection
// ended and was not lost. The end of the stream itself cannot tell: a unix socket has no reset.
func openDial(ctx context.Context, m gateway.Machine, address string) (backend, error) {
	conn, err := m.Dial(ctx, forwards.Network(address), address)
	if err != nil {
		return backend{}, api.Errorf(api.CodeForward, "%s: %v", address, probe.DialError(err)).Because(err)
	}
	to := relay(conn)
	serve := to.serve
	to.serve = func(ctx context.Context, client streamClient) {
		buffer := bufio.NewWriter(client.Conn)
		client.Conn = &chunkedConn{Conn: client.Conn, chunks: httputil.NewChunkedWriter(buffer), buffer: buffer}
		serve(ctx, client)
	}
	return to, nil
}

// chunkedConn writes in chunks.
type chunkedConn struct {
	net.Conn
	chunks io.WriteCloser
	buffer *bufio.Writer // a chunk is written at once
}

// Write implements net.Conn.
func (c *chunkedConn) Write(p []byte) (int, error) {
	n, err := c.chunks.Write(p)
	return n, errors.Join(err, c.buffer.Flush())
}

// CloseWrite writes the last chunk and ends the direction.
func (c *chunkedConn) CloseWrite() error {
	if err := errors.Join(c.chunks.Close(), c.buffer.Flush()); err != nil {
		return err
	}
	return closeWrite(c.Conn)
}

// relay is a connection of the host, whose bytes are passed on.
func relay(host io.ReadWriteCloser) backend {
	return backend{close: func() { _ = host.Close() }, serve: func(ctx context.Context, client streamClient) {
		end := func() {
			_ = client.Close()
			_ = host.Close()
		}
		defer context.AfterFunc(ctx, end)()
		var wg sync.WaitGroup
		wg.Go(func() { copyDirection(host, client, end) })
		wg.Go(func() { copyDirection(client, host, end) })
		wg.Wait()
	}}
}

// copyDirection copies one direction to its end and closes it there; an error ends both
// directions.
func copyDirection(to io.Writer, from io.Reader, end func()) {
	// Hidden behind an interface, a socket's own ReadFrom does not replace the buffer.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, streamBuffer))
	if err == nil {
		err = closeWrite(to)
	}
	if err != nil {
		end()
	}
}

// closeWrite closes one direction, or both where they cannot be closed separately.
func closeWrite(w io.Writer) error {
	switch c := w.(type) {
	case interface{ CloseWrite() error }:
		return c.CloseWrite()
	case io.Closer:
		return c.Close()
	}
	return nil
}

// openGateway is an SSH server whose channels go to a machine. They end with the client.
func (a *server) openGateway(m gateway.Machine, name string, nodes *jobnode.Run) (backend, error) {
	key, err := gateway.HostKey(a.paths.Gateway())
	if err != nil {
		return backend{}, fmt.Errorf("gateway key: %w", err)
	}
	o := gateway.Options{Name: name, Host: m, Key: key, NoticeAfter: time.Second, Log: a.Log}
	if nodes != nil {
		o.Waiting, o.Notices = fmt.Sprintf("connecting to the job of session %s", name), nodes.TakeNotices
	}
	return backend{close: func() {}, serve: func(ctx context.Context, client streamClient) {
		if err := gateway.Serve(ctx, client, o); err != nil {
			a.Log.Debug("gateway client disconnected", "host", name, "err", err)
		}
	}}, nil
}

// openSFTP starts the machine's file server, in a session of its own.
func openSFTP(ctx context.Context, m gateway.Machine, name string, spare bool) (backend, error) {
	ctx, cancel := context.WithTimeout(ctx, sftpTimeout)
	defer cancel()
	if spare {
		ctx = tunnel.Spare(ctx)
	}
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	_, isHost := m.(*tunnel.Host)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && isHost:
		return backend{}, api.Errorf(api.CodeTimeout, "all sessions that %s allows at once are in use", name).Because(err).
			WithHint("close a shell or wait for a copy to end")
	case err != nil:
		return backend{}, err
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	payload := ssh.Marshal(struct{ Name string }{"sftp"})
	ok, err := ch.SendRequest("subsystem", true, payload)
	if err == nil && !ok {
		err = api.Errorf(api.CodeFailed, "%s has no file server (SFTP)", name)
	}
	if err != nil {
		_ = ch.Close()
		return backend{}, err
	}
	// CloseWrite of the channel is hidden: the session, which counts towards the host's
	// limit, must end when the client does.
	return relay(struct{ io.ReadWriteCloser }{ch}), nil
}
