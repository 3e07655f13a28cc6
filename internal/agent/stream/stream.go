// Package stream connects a client of the local API to a machine, over a connection that is no
// longer HTTP: to an address there, to an SSH server whose channels go there, or to its file
// server. Which machine that is, and that it is connected, is up to the caller.
package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/probe"
	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/tunnel"
)

const (
	// sftpTimeout is how long a copy waits for a session on the host.
	sftpTimeout = time.Minute

	bufferSize = 128 << 10 // of one direction
)

// Backend is what a stream connects a client to.
type Backend struct {
	// Serve copies between the two until either ends or ctx is done.
	Serve  func(ctx context.Context, client Client)
	Close  func()
	Notice string // what the client is to be told at once
}

// Client is the client's end of a stream.
type Client struct {
	net.Conn
	read *bufio.Reader
}

// Read returns what the client sent.
func (c Client) Read(p []byte) (int, error) { return c.read.Read(p) }

// CloseWrite ends the direction to the client.
func (c Client) CloseWrite() error { return closeWrite(c.Conn) }

// Options are what a stream needs besides its machine.
type Options struct {
	Name    string       // of the machine, in messages
	Nodes   *jobnode.Run // of the job that the machine is inside; nil: of none
	KeyFile string       // has the host key of the gateway
	Log     *slog.Logger
}

// Open opens what the request asks for on a machine.
func Open(ctx context.Context, m gateway.Machine, req api.StreamRequest, o Options) (Backend, error) {
	switch req.Kind {
	case api.StreamDial:
		return openDial(ctx, m, req.Address)
	case api.StreamGateway:
		return openGateway(m, o)
	case api.StreamSFTP:
		return openSFTP(ctx, m, o.Name, req.Spare)
	}
	return Backend{}, api.Errorf(api.CodeUsage, "unknown kind of stream %q", req.Kind)
}

// Upgrade takes the connection over from the HTTP server.
func Upgrade(w http.ResponseWriter, notice string) (Client, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return Client{}, err
	}
	client := Client{Conn: conn, read: buffered.Reader}
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
	return client, err
}

// openDial connects to an address. It tells its client in the last chunk that the connection
// ended and was not lost. The end of the stream itself cannot tell: a unix socket has no reset.
func openDial(ctx context.Context, m gateway.Machine, address string) (Backend, error) {
	conn, err := m.Dial(ctx, forwards.Network(address), address)
	if err != nil {
		return Backend{}, api.Errorf(api.CodeForward, "%s: %v", address, probe.DialError(err)).Because(err)
	}
	to := relay(conn)
	serve := to.Serve
	to.Serve = func(ctx context.Context, client Client) {
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
func relay(host io.ReadWriteCloser) Backend {
	return Backend{Close: func() { _ = host.Close() }, Serve: func(ctx context.Context, client Client) {
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
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, bufferSize))
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
func openGateway(m gateway.Machine, of Options) (Backend, error) {
	key, err := gateway.HostKey(of.KeyFile)
	if err != nil {
		return Backend{}, fmt.Errorf("gateway key: %w", err)
	}
	o := gateway.Options{Name: of.Name, Host: m, Key: key, NoticeAfter: time.Second, Log: of.Log}
	if of.Nodes != nil {
		o.Waiting, o.Notices = fmt.Sprintf("connecting to the job of session %s", of.Name), of.Nodes.TakeNotices
	}
	return Backend{Close: func() {}, Serve: func(ctx context.Context, client Client) {
		if err := gateway.Serve(ctx, client, o); err != nil {
			of.Log.Debug("gateway client disconnected", "host", of.Name, "err", err)
		}
	}}, nil
}

// openSFTP starts the machine's file server, in a session of its own.
func openSFTP(ctx context.Context, m gateway.Machine, name string, spare bool) (Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, sftpTimeout)
	defer cancel()
	if spare {
		ctx = tunnel.Spare(ctx)
	}
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	_, isHost := m.(*tunnel.Host)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && isHost:
		return Backend{}, api.Errorf(api.CodeTimeout, "all sessions that %s allows at once are in use", name).Because(err).
			WithHint("close a shell or wait for a copy to end")
	case err != nil:
		return Backend{}, err
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	payload := ssh.Marshal(struct{ Name string }{"sftp"})
	ok, err := ch.SendRequest("subsystem", true, payload)
	if err == nil && !ok {
		err = api.Errorf(api.CodeFailed, "%s has no file server (SFTP)", name)
	}
	if err != nil {
		_ = ch.Close()
		return Backend{}, err
	}
	// CloseWrite of the channel is hidden: the session, which counts towards the host's
	// limit, must end when the client does.
	return relay(struct{ io.ReadWriteCloser }{ch}), nil
}
