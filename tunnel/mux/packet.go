//go:build unix

package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// The messages of PROTOCOL.mux: MUX_MSG_HELLO, MUX_C_… from us, and MUX_S_… from a master.
const (
	msgHello = 1

	clientOpenForward  = 0x10000006
	clientCloseForward = 0x10000007

	serverOK               = 0x80000001
	serverPermissionDenied = 0x80000002
	serverFailure          = 0x80000003
	serverRemotePort       = 0x80000007
)

const (
	version = 4
	// maxPacket is far more than any message has.
	maxPacket = 256 << 10
	// replyTimeout bounds a reply that the master gives without its server.
	replyTimeout = 5 * time.Second
)

// link is a connection to the control socket; each serves one request.
type link struct{ net.Conn }

// withTimeout bounds f, which needs only the master.
func (l link) withTimeout(f func() error) error {
	_ = l.SetDeadline(time.Now().Add(replyTimeout))
	defer func() { _ = l.SetDeadline(time.Time{}) }()
	return f()
}

// hello exchanges versions.
func (l link) hello() error {
	if err := l.write(struct{ Kind, Version uint32 }{msgHello, version}); err != nil {
		return err
	}
	kind, body, err := l.read()
	if err != nil {
		return err
	}
	if kind != msgHello || len(body) < 4 || binary.BigEndian.Uint32(body) != version {
		return errors.New("the ssh master uses another version of the protocol")
	}
	return nil
}

// write sends one message.
func (l link) write(message any) error {
	body := ssh.Marshal(message)
	_, err := l.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// read receives one message.
func (l link) read() (kind uint32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(l, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxPacket {
		return 0, nil, fmt.Errorf("the message is too long: %d bytes", size)
	}
	body = make([]byte, size-4)
	_, err = io.ReadFull(l, body)
	return binary.BigEndian.Uint32(head[4:]), body, err
}

// answer receives the reply to a request: its kind and the number that comes with it. A
// refusal is an *ssh.OpenChannelError.
func (l link) answer() (kind, number uint32, err error) {
	kind, body, err := l.read()
	if err != nil {
		return 0, 0, err
	}
	if len(body) < 4 {
		return 0, 0, fmt.Errorf("the reply is too long: %d bytes", len(body))
	}
	body = body[4:] // the request's number: a link has only one
	switch kind {
	case serverPermissionDenied, serverFailure:
		var said struct{ Reason string }
		if err := ssh.Unmarshal(body, &said); err != nil {
			return 0, 0, err
		}
		return 0, 0, &ssh.OpenChannelError{Reason: ssh.Prohibited, Message: said.Reason}
	}
	if len(body) >= 4 {
		number = binary.BigEndian.Uint32(body)
	}
	return kind, number, nil
}
