package step

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// ErrNoSFTP is what a session's request for sftp fails with where the node has no
// sftp-server. The login node may have one.
var ErrNoSFTP = errors.New("the node has no sftp-server")

// SendRequest handles a client's request in a session (RFC 4254, section 6) as sshd does.
// What may start a program waits for the relay. The request for sftp may fail with
// [ErrNoSFTP].
func (ch *channel) SendRequest(name string, _ bool, payload []byte) (bool, error) {
	if !ch.session {
		return false, nil
	}
	switch name {
	case "env":
		return ch.setEnv(payload), nil
	case "pty-req":
		return ch.setTerminal(payload), nil
	case "shell":
		return ch.run(openRequest{Kind: "shell"})
	case "exec":
		var r struct{ Command string }
		if !parse(payload, &r) {
			return false, nil
		}
		return ch.run(openRequest{Kind: "exec", Command: []byte(r.Command)})
	case "subsystem":
		var r struct{ Name string }
		if !parse(payload, &r) || r.Name != "sftp" {
			return false, nil
		}
		return ch.run(openRequest{Kind: "sftp"})
	case "window-change":
		var r struct{ Columns, Rows, Width, Height uint32 }
		return parse(payload, &r) && ch.resize(sizeOf(r.Rows, r.Columns, r.Width, r.Height)), nil
	case "signal":
		var r struct{ Name string }
		return parse(payload, &r) && ch.tell(kindSignal, []byte(r.Name)), nil
	case "eow@openssh.com":
		return ch.tell(kindEOW, nil), nil
	}
	return false, nil
}

func parse(payload []byte, to any) bool { return ssh.Unmarshal(payload, to) == nil }

// mostEnv bounds what a client may set before its program starts.
const mostEnv = 100

// Meter is a variable of a program that only measures the job, and does not use it.
const Meter = "TUNCTL_METER"

// accepted are the variables that distributions let clients of sshd set, besides LC_*.
var accepted = []string{"LANG", "LANGUAGE", "XMODIFIERS", "COLORTERM", "NO_COLOR", "GIT_PROTOCOL", Meter}

func (ch *channel) setEnv(payload []byte) bool {
	var r struct{ Name, Value string }
	if !parse(payload, &r) || len(payload) > 4<<10 || strings.ContainsAny(r.Name+r.Value, "\x00") {
		return false
	}
	if !slices.Contains(accepted, r.Name) && !strings.HasPrefix(r.Name, "LC_") || strings.Contains(r.Name, "=") {
		return false
	}
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	if len(ch.start.Env) == mostEnv {
		return false
	}
	ch.start.Env = append(ch.start.Env, [2][]byte{[]byte(r.Name), []byte(r.Value)})
	return true
}

func (ch *channel) setTerminal(payload []byte) bool {
	var r struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if !parse(payload, &r) || len(r.Term) > 100 || strings.ContainsAny(r.Term, "\x00") {
		return false
	}
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	ch.start.Pty = &terminal{Term: strings.ToValidUTF8(r.Term, ""), Size: sizeOf(r.Rows, r.Columns, r.Width, r.Height), Modes: modesOf(r.Modes)}
	return true
}

func sizeOf(numbers ...uint32) (size [4]uint16) {
	for i, n := range numbers {
		size[i] = uint16(min(n, 1<<16-1))
	}
	return size
}

// resize changes the size of a terminal, also of one whose program is yet to start.
func (ch *channel) resize(size [4]uint16) bool {
	ch.conn.mu.Lock()
	waiting := ch.start.Pty != nil && !ch.open && !ch.opening
	if waiting {
		pty := *ch.start.Pty
		pty.Size = size
		ch.start.Pty = &pty
	}
	ch.conn.mu.Unlock()
	var payload []byte
	for _, n := range size {
		payload = binary.BigEndian.AppendUint16(payload, n)
	}
	return waiting || ch.tell(kindResize, payload)
}

// modesOf reads the modes of a terminal (RFC 4254, section 8): a byte and a number each,
// up to a byte that is not a mode.
func modesOf(encoded string) [][2]uint32 {
	modes := [][2]uint32{}
	for len(encoded) >= 5 && encoded[0] > 0 && encoded[0] < 160 {
		modes = append(modes, [2]uint32{uint32(encoded[0]), binary.BigEndian.Uint32([]byte(encoded[1:5]))})
		encoded = encoded[5:]
	}
	return modes
}

// noSuchFile is ENOENT on Linux, where the relay runs.
const noSuchFile = 2

// run starts the session's one program.
func (ch *channel) run(request openRequest) (bool, error) {
	ch.conn.mu.Lock()
	request.Env, request.Pty = ch.start.Env, ch.start.Pty
	ch.conn.mu.Unlock()
	if request.Kind == "sftp" {
		request.Pty = nil // a terminal would change what passes
	}
	err := ch.request(context.Background(), request, nil)
	if r, ok := errors.AsType[*refusal](err); ok && request.Kind == "sftp" && r.Errno == noSuchFile {
		err = ErrNoSFTP
	}
	return err == nil, err
}

// tell sends a frame about a program that runs.
func (ch *channel) tell(kind byte, payload []byte) bool {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	if !ch.open || ch.removed {
		return false
	}
	ch.conn.sendLocked(ch.number, kind, payload)
	return true
}
