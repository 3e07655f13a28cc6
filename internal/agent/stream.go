package agent

import (
	"bufio"
	"bytes"
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
	"tunctl/internal/agent/localapi"
	"tunctl/internal/agent/probe"
	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/tunnel"
)

const (
	// streamTimeout bounds how long the host of a stream may take to connect, including
	// the time that a person needs to answer its questions.
	streamTimeout = 3 * time.Minute
	// sftpTimeout is how long a copy waits for a session on the host, spareTimeout how
	// long it waits for one that it can do without.
	sftpTimeout  = time.Minute
	spareTimeout = 2 * time.Second

	streamBuffer = 128 << 10 // of one direction
)

// backend is what a stream connects a client to.
type backend struct {
	// serve copies between the two until either ends or ctx is done.
	serve  func(ctx context.Context, client streamClient)
	close  func()
	notice string // what the client is to be told at once
}

// streamClient is the client's end of a stream.
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
		a.hosts.UseEnv(req.Env)
		to, err = a.openStream(r.Context(), req)
	}
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	client, err := hijack(w, to.notice)
	if err != nil {
		to.close()
		a.log.Error("cannot open a stream", "err", err)
		return
	}
	ctx := a.ctx
	a.work.Go(func() {
		defer func() { _ = client.Close() }()
		defer to.close()
		to.serve(ctx, client)
	})
}

func (a *server) openStream(ctx context.Context, req api.StreamRequest) (backend, error) {
	if req.Session != "" {
		return a.openInside(ctx, req)
	}
	h, release, err := a.streamHost(ctx, req)
	if err != nil {
		return backend{}, err
	}
	to, err := a.openBackend(ctx, h, h.Status().Alias, req, nil)
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
	s, err := a.sessions.find(req.Session)
	if err != nil {
		return backend{}, err
	}
	which := req.Node
	req.Session, req.Host = "", s.host()
	if !s.hasJob() {
		return a.openStream(ctx, req)
	}
	if _, err := s.runningNodes(); err != nil {
		return backend{}, err // before anything is connected for it
	}
	req.Node = ""
	_, release, err := a.streamHost(ctx, req)
	if err != nil {
		return backend{}, err
	}
	defer release()
	nodes, err := s.runningNodes() // the job may have ended while the host was connected
	if err != nil {
		return backend{}, err
	}
	m, err := nodes.machine(ctx, which)
	if err != nil {
		return backend{}, err
	}
	to, err := a.openBackend(ctx, m, s.name, req, nodes)
	if err != nil {
		return backend{}, err
	}
	if req.Kind != api.StreamGateway { // which tells its clients itself
		to.notice = strings.Join(nodes.takeNotices(), "; ")
	}
	serve := to.serve
	to.serve = func(ctx context.Context, client streamClient) {
		s.inside.Add(1)
		defer s.inside.Add(-1)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// When the job has ended or moved, its client would keep a connection that leads nowhere.
		defer context.AfterFunc(nodes.run, cancel)()
		serve(ctx, client)
	}
	return to, nil
}

// openBackend opens what the request asks for on a machine, which messages call name. It is
// inside a job, or nodes is nil.
func (a *server) openBackend(ctx context.Context, m machine, name string, req api.StreamRequest, nodes *jobNodes) (backend, error) {
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

// streamHost connects the host that a stream goes to. The caller releases it: the
// connection to a compute node lasts as long as its streams.
func (a *server) streamHost(ctx context.Context, req api.StreamRequest) (h *tunnel.Host, release func(), err error) {
	up := func(h api.Host) bool { return h.Alias == req.Host && h.State == api.HostUp }
	if req.Connected && !slices.ContainsFunc(a.pool.Hosts(), up) { // which does not add an unknown host to the pool
		return nil, nil, api.Errorf(api.CodeUnreachable, "not connected to %s", req.Host)
	}
	if err := a.hosts.Allowed(ctx, req.Host); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	login := a.pool.Host(req.Host)
	switch {
	case login.Status().State == api.HostUp:
	case connectAtOnce(login, req):
		login.UpFor(localapi.Client(ctx))
	default:
		login.Want()
	}
	if err := login.Await(ctx); err != nil {
		return nil, nil, err
	}
	if req.Node == "" {
		return login, func() {}, nil
	}
	node := a.pool.Behind(req.Host, req.Node)
	release = node.Lease(connectAtOnce(node, req), localapi.Client(ctx))
	if err := node.Await(ctx); err != nil {
		release()
		return nil, nil, err
	}
	return node, release, nil
}

// connectAtOnce reports whether a host is dialled at once, because a person has just
// asked for it, or by the usual schedule. A host that needs a person is not dialled at
// once for a program: an rsync in a loop would get its owner banned.
func connectAtOnce(h *tunnel.Host, req api.StreamRequest) bool {
	state := h.Status().State
	stopped := state == api.HostNeedsLogin || state == api.HostBlocked
	return !req.Again && (!req.Unattended || !stopped)
}

// hijack takes the connection over from the HTTP server.
func hijack(w http.ResponseWriter, notice string) (streamClient, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return streamClient{}, err
	}
	client := streamClient{Conn: conn, read: buffered.Reader}
	head := http.Header{"Connection": {"Upgrade"}, "Upgrade": {api.StreamUpgrade}}
	if notice != "" {
		head.Set(api.NoticeHeader, notice)
	}
	var response bytes.Buffer
	response.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = head.Write(&response) // to memory
	response.WriteString("\r\n")
	_, err = conn.Write(response.Bytes())
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // the request's limits are not the stream's
	}
	if err != nil {
		_ = conn.Close()
	}
	return client, err
}

// openDial connects to an address. It tells its client in the last chunk that the connection
// ended and was not lost. The end of the stream itself cannot tell: a unix socket has no reset.
func openDial(ctx context.Context, m machine, address string) (backend, error) {
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
func (a *server) openGateway(m machine, name string, nodes *jobNodes) (backend, error) {
	key, err := gateway.HostKey(a.paths.Gateway())
	if err != nil {
		return backend{}, fmt.Errorf("gateway key: %w", err)
	}
	o := gateway.Options{Name: name, Host: m, Key: key, Log: a.log}
	if nodes != nil {
		o.Waiting, o.Notices = fmt.Sprintf("connecting to the job of session %s", name), nodes.takeNotices
	}
	return backend{close: func() {}, serve: func(ctx context.Context, client streamClient) {
		if err := gateway.Serve(ctx, client, o); err != nil {
			a.log.Debug("gateway client disconnected", "host", name, "err", err)
		}
	}}, nil
}

// openSFTP starts the machine's file server, in a session of its own.
func openSFTP(ctx context.Context, m machine, name string, spare bool) (backend, error) {
	timeout := sftpTimeout
	if spare {
		timeout = spareTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
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
