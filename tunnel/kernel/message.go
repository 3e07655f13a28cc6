package kernel

import (
	"encoding/binary"
	"encoding/json"
)

// header is what of a message's header matters here.
type header struct {
	ID   string `json:"msg_id"`
	Type string `json:"msg_type"`
}

// message is what of a message of Jupyter's protocol matters here.
type message struct {
	Header   header
	Parent   header `json:"parent_header"`
	Metadata struct {
		Cell string `json:"cellId"`
	}
	Content struct {
		Code   string
		State  string `json:"execution_state"`
		Status string
	}
}

// parse reads a message: of JSON, or of v1.kernel.websocket.jupyter.org, which is the number of
// offsets, the offsets, and the channel, header, parent header, metadata and content between them.
// A part of another form is left out: such a message does not matter.
func parse(b []byte) (m message, ok bool) {
	if len(b) > 0 && b[0] == '{' {
		_ = json.Unmarshal(b, &m)
		return m, m.Header.Type != ""
	}
	const count, size = 6, 8
	if len(b) < (1+count)*size || binary.LittleEndian.Uint64(b) < count {
		return m, false
	}
	for i, part := range []any{&m.Header, &m.Parent, &m.Metadata, &m.Content} {
		from, to := binary.LittleEndian.Uint64(b[(2+i)*size:]), binary.LittleEndian.Uint64(b[(3+i)*size:])
		if from > to || to > uint64(len(b)) {
			return m, false
		}
		_ = json.Unmarshal(b[from:to], part)
	}
	return m, m.Header.Type != ""
}

// ends returns the id of the cell whose end the message tells; "" and true: that of all.
func (m *message) ends() (id string, ok bool) {
	isStatus := m.Header.Type == "status"
	if isStatus && (m.Content.State == "restarting" || m.Content.State == "dead" || m.Content.State == "autorestarting") {
		return "", true
	}
	isIdle := isStatus && m.Content.State == "idle" && m.Parent.Type == "execute_request"
	isAborted := m.Header.Type == "execute_reply" && m.Content.Status == "aborted"
	return m.Parent.ID, isIdle || isAborted
}
