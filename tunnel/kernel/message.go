package kernel

import (
	"encoding/binary"
	"encoding/json"
)

// message is what of a message of Jupyter's protocol matters here.
type message struct {
	Header, Parent struct {
		ID   string `json:"msg_id"`
		Type string `json:"msg_type"`
	}
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
func parse(b []byte) (m message, ok bool) {
	if len(b) > 0 && b[0] == '{' {
		var whole struct {
			Header       json.RawMessage
			ParentHeader json.RawMessage `json:"parent_header"`
			Metadata     json.RawMessage
			Content      json.RawMessage
		}
		if json.Unmarshal(b, &whole) != nil {
			return m, false
		}
		return m, m.read(whole.Header, whole.ParentHeader, whole.Metadata, whole.Content)
	}
	const count, size = 6, 8
	if len(b) < (1+count)*size || binary.LittleEndian.Uint64(b) < count {
		return m, false
	}
	var parts [count - 2][]byte
	for i := range parts {
		from, to := binary.LittleEndian.Uint64(b[(2+i)*size:]), binary.LittleEndian.Uint64(b[(3+i)*size:])
		if from > to || to > uint64(len(b)) {
			return m, false
		}
		parts[i] = b[from:to]
	}
	return m, m.read(parts[0], parts[1], parts[2], parts[3])
}

func (m *message) read(header, parent, metadata, content []byte) bool {
	// One whose parts are of another form is not one that matters.
	_ = json.Unmarshal(header, &m.Header)
	_ = json.Unmarshal(parent, &m.Parent)
	_ = json.Unmarshal(metadata, &m.Metadata)
	_ = json.Unmarshal(content, &m.Content)
	return m.Header.Type != ""
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
