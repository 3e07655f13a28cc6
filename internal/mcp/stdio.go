package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve serves an assistant on its input and output until the input ends.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	shared := &output{out: out}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, sdk.DefaultMaxLineLength)
	return newServer(o).tools().Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(&messages{lines: lines, out: shared}), Writer: shared})
}

// messages reads the lines that are messages. Others are answered with an error, since they
// would end the server.
type messages struct {
	lines *bufio.Scanner
	out   io.Writer
	rest  []byte // of the line
}

func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if !m.lines.Scan() {
			return 0, cmp.Or(m.lines.Err(), io.EOF)
		}
		line := bytes.TrimSpace(m.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if problem := problemOf(line); problem != nil {
			if err := m.reject(problem); err != nil {
				return 0, err
			}
			continue
		}
		m.rest = slices.Concat(line, []byte{'\n'})
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// problemOf says why a line is not a message.
func problemOf(line []byte) *jsonrpc.Error {
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "this line is not JSON; each message is one line"}
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this line is not a JSON-RPC 2.0 message; batches are not supported"}
	}
	return nil
}

// reject answers a line whose ID is not known.
func (m *messages) reject(problem *jsonrpc.Error) error {
	data, err := json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, problem})
	if err != nil {
		return err
	}
	_, err = m.out.Write(append(data, '\n'))
	return err
}

// output is written to by the server and by messages, and stays open.
type output struct {
	mu  sync.Mutex
	out io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.out.Write(p)
}

func (o *output) Close() error { return nil }
