package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"testing"

	"github.com/coder/websocket"
)

// kernelV1 is the sub-protocol that JupyterLab 4 asks for. Jupyter Server 2 has it; notebook 6
// has JSON in text frames only.
const kernelV1 = "v1.kernel.websocket.jupyter.org"

// hasJupyterLab reports whether the lab's notebooks are JupyterLab's: Debian 12 has notebook 6 only.
func hasJupyterLab() bool {
	_, err := exec.LookPath("jupyter-lab")
	return err == nil
}

// kernelConn is a websocket to a kernel, in the sub-protocol that its server chose.
type kernelConn struct{ *websocket.Conn }

// kernelMessage is what the tests read of a kernel's message.
type kernelMessage struct {
	Type   string `json:"msg_type"`
	Parent struct {
		ID string `json:"msg_id"`
	} `json:"parent_header"`
	Content struct {
		Text  string `json:"text"`
		State string `json:"execution_state"`
	} `json:"content"`
}

// dialKernel opens a websocket as JupyterLab's page does.
func dialKernel(ctx context.Context, channels string) (kernelConn, error) {
	conn, _, err := websocket.Dial(ctx, channels, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		Subprotocols: []string{kernelV1}, CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		return kernelConn{}, err
	}
	conn.SetReadLimit(4 << 20)
	return kernelConn{conn}, nil
}

// execute asks the kernel to run code.
func (k kernelConn) execute(ctx context.Context, id, code string) error {
	request := map[string]any{
		"header":        map[string]any{"msg_id": id, "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3"},
		"parent_header": map[string]any{}, "metadata": map[string]any{}, "channel": "shell",
		"content": map[string]any{"code": code, "silent": false},
	}
	if k.Subprotocol() == "" {
		text, err := json.Marshal(request)
		if err != nil {
			return err
		}
		return k.Write(ctx, websocket.MessageText, text)
	}
	parts := [][]byte{[]byte("shell")}
	for _, name := range []string{"header", "parent_header", "metadata", "content"} {
		text, err := json.Marshal(request[name])
		if err != nil {
			return err
		}
		parts = append(parts, text)
	}
	return k.Write(ctx, websocket.MessageBinary, joinV1(parts))
}

// read is the next message of the kernel.
func (k kernelConn) read(ctx context.Context) (kernelMessage, error) {
	var msg kernelMessage
	kind, data, err := k.Read(ctx)
	if err != nil {
		return msg, err
	}
	if k.Subprotocol() == "" {
		return msg, json.Unmarshal(data, &msg)
	}
	if kind != websocket.MessageBinary {
		return msg, fmt.Errorf("a text frame in %s", kernelV1)
	}
	parts, err := splitV1(data)
	if err != nil {
		return msg, err
	}
	// Channel, header, parent header, metadata, content.
	for i, to := range map[int]any{1: &msg, 2: &msg.Parent, 4: &msg.Content} {
		if err := json.Unmarshal(parts[i], to); err != nil {
			return msg, fmt.Errorf("part %d of a message: %w", i, err)
		}
	}
	return msg, nil
}

// joinV1 makes a frame of kernelV1: how many offsets there are, where each part begins and the
// last one ends, each a number of eight bytes, and the parts.
func joinV1(parts [][]byte) []byte {
	frame := binary.LittleEndian.AppendUint64(nil, uint64(len(parts)+1))
	at := uint64(8 * (len(parts) + 2))
	for _, part := range parts {
		frame = binary.LittleEndian.AppendUint64(frame, at)
		at += uint64(len(part))
	}
	frame = binary.LittleEndian.AppendUint64(frame, at)
	return append(frame, bytes.Join(parts, nil)...)
}

// splitV1 reads a frame of kernelV1 into its parts, of which a message has five or more.
func splitV1(frame []byte) ([][]byte, error) {
	number := func(i uint64) uint64 {
		if 8*i+8 > uint64(len(frame)) {
			return 0
		}
		return binary.LittleEndian.Uint64(frame[8*i:])
	}
	count := number(0)
	if count < 6 || count > uint64(len(frame))/8 {
		return nil, fmt.Errorf("a frame of %d bytes with %d offsets", len(frame), count)
	}
	var parts [][]byte
	for i := range count - 1 {
		from, to := number(i+1), number(i+2)
		if from > to || to > uint64(len(frame)) {
			return nil, fmt.Errorf("part %d of a frame of %d bytes is from %d to %d", i, len(frame), from, to)
		}
		parts = append(parts, frame[from:to])
	}
	return parts, nil
}

// jupyterVersion names the server and its version.
func jupyterVersion(t *testing.T, base *url.URL, token string) string {
	t.Helper()
	var server struct {
		Version string `json:"version"`
	}
	askJupyter(t, http.MethodGet, base.JoinPath("api"), token, &server)
	if hasJupyterLab() {
		return "JupyterLab on Jupyter Server " + server.Version
	}
	return "notebook " + server.Version + ": this system has no JupyterLab"
}

// askJupyter asks the server's API something.
func askJupyter(t *testing.T, method string, at *url.URL, token string, answer any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+token)
	res, err := browser().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		t.Fatalf("%s: %s, %v", at.Path, res.Status, err)
	}
}
