package client

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httputil"

	"tunctl/internal/api"
	"tunctl/internal/localsocket"
)

// Stream is a private two-way stream over a host's connection. CloseWrite ends one
// direction of it.
type Stream struct {
	localsocket.Conn
	Notice string // what the user should know about it; mostly ""
	read   io.Reader
}

// Read returns what comes from the host. Of a dial it fails with io.ErrUnexpectedEOF if
// the connection was lost.
func (s *Stream) Read(p []byte) (int, error) { return s.read.Read(p) }

// Stream opens a private stream. It waits until the host is connected or ctx ends: a
// user may be answering its prompts.
func (c *Client) Stream(ctx context.Context, req api.StreamRequest) (*Stream, error) {
	req.Env = environment()
	method, path := api.CallStream.Request()
	hr, err := c.newRequest(ctx, method, path, req)
	if err != nil {
		return nil, err
	}
	hr.Header.Set("Connection", "Upgrade")
	hr.Header.Set("Upgrade", api.StreamUpgrade)
	ctx, end := c.whileResponding(ctx)
	defer end()
	conn, err := dial(ctx, c.paths)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	stream, err := c.upgrade(ctx, conn, hr)
	if err == nil && req.Kind == api.StreamDial {
		stream.read = httputil.NewChunkedReader(stream.read)
	}
	if !stop() && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return stream, nil
}

// upgrade sends the request and turns the connection into the stream.
func (c *Client) upgrade(ctx context.Context, conn localsocket.Conn, req *http.Request) (*Stream, error) {
	if err := req.Write(conn); err != nil {
		return nil, c.unreachable(ctx, err)
	}
	read := bufio.NewReader(conn)
	res, err := http.ReadResponse(read, req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return &Stream{Conn: conn, Notice: res.Header.Get(api.NoticeHeader), read: read}, nil
	}
	return nil, refusal(res)
}
