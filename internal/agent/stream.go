package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel"
)

// streamPatience bounds how long a stream's host may take to be connected, a
// person's answers included.
const streamPatience = 3 * time.Minute

// farSide is where a private stream leads.
type farSide interface {
	// serve carries the stream until one of its ends or ctx is at its end.
	serve(ctx context.Context, near nearSide)
	io.Closer
}

// nearSide is the client's end of a private stream.
type nearSide struct {
	net.Conn
	read *bufio.Reader
}

// Read returns what the client sent.
func (n nearSide) Read(p []byte) (int, error) { return n.read.Read(p) }

// CloseWrite says that nothing more comes.
func (n nearSide) CloseWrite() error { return closeWrite(n.Conn) }

// handleStream opens the far side first, so that whatever is wrong with it can be
// said in an ordinary answer; then the connection becomes the stream.
func (a *Agent) handleStream(w http.ResponseWriter, r *http.Request) {
	var req api.StreamRequest
	err := decode(r, &req)
	if err == nil && r.Header.Get("Upgrade") != api.StreamUpgrade {
		err = &api.Error{Code: api.CodeUsage, Message: "a stream needs the header Upgrade: " + api.StreamUpgrade}
	}
	var far farSide
	if err == nil {
		a.useEnv(req.Env)
		far, err = a.openStream(r.Context(), req)
	}
	if err != nil {
		fail(w, err)
		return
	}
	near, err := hijack(w)
	if err != nil {
		_ = far.Close()
		a.log.Error("cannot open a stream", "err", err)
		return
	}
	a.mu.Lock()
	ctx := a.ctx
	a.mu.Unlock()
	a.work.Go(func() {
		defer func() { _ = near.Close() }()
		defer func() { _ = far.Close() }()
		far.serve(ctx, near)
	})
}

func (a *Agent) openStream(ctx context.Context, req api.StreamRequest) (farSide, error) {
	h, release, err := a.streamHost(ctx, req)
	if err != nil {
		return nil, err
	}
	far, err := a.openFarSide(ctx, h, req)
	if err != nil {
		release()
		return nil, err
	}
	return leased{far, release}, nil
}

// leased is a far side whose host is used until it is closed.
type leased struct {
	farSide
	release func()
}

// Close ends the far side, and then the use of its host.
func (l leased) Close() error {
	defer l.release()
	return l.farSide.Close()
}

func (a *Agent) openFarSide(ctx context.Context, h *tunnel.Host, req api.StreamRequest) (farSide, error) {
	switch req.Kind {
	case api.StreamDial:
		return dialStream(ctx, h, req.Address)
	case api.StreamGateway:
		return a.gatewayStream(h)
	case api.StreamSFTP:
		return sftpStream(ctx, h, req.Spare)
	}
	return nil, &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("unknown kind of stream %q", req.Kind)}
}

// streamHost is the host that a stream goes to, connected, and how to end its use: the
// connection to a compute node is there for its streams only.
func (a *Agent) streamHost(ctx context.Context, req api.StreamRequest) (h *tunnel.Host, release func(), err error) {
	if req.Connected && !a.isConnected(req.Host) {
		return nil, nil, &api.Error{Code: api.CodeUnreachable, Message: "not connected to " + req.Host}
	}
	if err := a.allowed(ctx, req.Host); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, streamPatience)
	defer cancel()
	login := a.pool.Host(req.Host)
	switch {
	case login.Status().State == api.HostUp:
	case atOnce(login, req):
		login.UpFor(clientOf(ctx))
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
	release = node.Lease(atOnce(node, req), clientOf(ctx))
	if err := node.Await(ctx); err != nil {
		release()
		return nil, nil, err
	}
	return node, release, nil
}

// isConnected reports whether there is a connection to a host. A host that nobody named
// yet stays unknown.
func (a *Agent) isConnected(host string) bool {
	return slices.ContainsFunc(a.pool.Hosts(), func(h api.Host) bool { return h.Alias == host && h.State == api.HostUp })
}

// atOnce reports whether a host is tried at once, for a person who has just asked for
// it, or else as gently as it is kept. One that needs a person is not tried again for a
// program: an rsync in a loop would get its owner banned.
func atOnce(h *tunnel.Host, req api.StreamRequest) bool {
	state := h.Status().State
	stopped := state == api.HostNeedsLogin || state == api.HostBlocked
	return !req.Again && (!req.Unattended || !stopped)
}

// hijack takes the connection out of the HTTP server's hands.
func hijack(w http.ResponseWriter) (nearSide, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nearSide{}, err
	}
	near := nearSide{Conn: conn, read: buffered.Reader}
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+api.StreamUpgrade+"\r\n\r\n")
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // the request's limits are not the stream's
	}
	if err != nil {
		_ = conn.Close()
	}
	return near, err
}

// dialled is a far side that takes bytes and gives bytes.
type dialled struct{ io.ReadWriteCloser }

func dialStream(ctx context.Context, h *tunnel.Host, address string) (farSide, error) {
	conn, err := h.Dial(ctx, network(address), address)
	if err != nil {
		return nil, &api.Error{Code: api.CodeForward, Message: fmt.Sprintf("%s: %v", address, inWords(err)), Err: err}
	}
	return dialled{conn}, nil
}

func (d dialled) serve(ctx context.Context, near nearSide) {
	end := func() {
		_ = near.Close()
		_ = d.Close()
	}
	defer context.AfterFunc(ctx, end)()
	var wg sync.WaitGroup
	wg.Go(func() { carry(d.ReadWriteCloser, near, end) })
	wg.Go(func() { carry(near, d.ReadWriteCloser, end) })
	wg.Wait()
}

// streamBuffer is what one direction of a stream copies through.
const streamBuffer = 128 << 10

// carry copies one direction to its end and passes the end on; what breaks it ends
// both.
func carry(to io.Writer, from io.Reader, end func()) {
	// Hidden behind an interface, a socket's own ReadFrom does not replace the buffer.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, streamBuffer))
	if err == nil {
		err = closeWrite(to)
	}
	if err != nil {
		end()
	}
}

// closeWrite ends one direction of what has two, or all of what has not.
func closeWrite(w io.Writer) error {
	switch c := w.(type) {
	case interface{ CloseWrite() error }:
		return c.CloseWrite()
	case io.Closer:
		return c.Close()
	}
	return nil
}

// handlePing measures the way to a host, as a copy does to leave room for others on it.
func (a *Agent) handlePing(ctx context.Context, req api.PingRequest) (api.PingResponse, error) {
	rtt, err := a.pool.Host(req.Host).Ping(ctx)
	return api.PingResponse{RTTMs: float64(rtt) / float64(time.Millisecond)}, err
}
