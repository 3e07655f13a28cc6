//go:build unix

package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// The messages of PROTOCOL.mux: what we ask for, and what a master says.
const (
	hello = 1

	askSession   = 0x10000002
	askAlive     = 0x10000004
	askForward   = 0x10000006
	askUnforward = 0x10000007
	askStream    = 0x10000008

	sayOK      = 0x80000001
	sayDenied  = 0x80000002
	sayFailure = 0x80000003
	sayExit    = 0x80000004
	sayAlive   = 0x80000005
	sayOpened  = 0x80000006
	sayPort    = 0x80000007
)

const (
	version = 4
	// maxPacket is far more than any message of a master.
	maxPacket = 256 << 10
	// patience bounds what a master answers by itself, without asking its server.
	patience = 5 * time.Second
)

// link is a connection to the control socket; each serves one request.
type link struct{ net.Conn }

// hurry bounds f, which needs nothing but the master.
func (l link) hurry(f func() error) error {
	_ = l.SetDeadline(time.Now().Add(patience))
	defer func() { _ = l.SetDeadline(time.Time{}) }()
	return f()
}

// greet exchanges versions.
func (l link) greet() error {
	if err := l.write(struct{ Kind, Version uint32 }{hello, version}); err != nil {
		return err
	}
	kind, body, err := l.read()
	if err != nil {
		return err
	}
	if kind != hello || len(body) < 4 || binary.BigEndian.Uint32(body) != version {
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

// give hands files over, one a message, as the master expects them.
func (l link) give(files ...*os.File) error {
	c, ok := l.Conn.(*net.UnixConn)
	if !ok {
		return errors.New("files need a unix socket")
	}
	for _, f := range files {
		if _, _, err := c.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(f.Fd())), nil); err != nil {
			return err
		}
	}
	return nil
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

// answer receives what the master says to a request: its kind of yes, and the number
// that comes with it. A no is an *ssh.OpenChannelError with that reason.
func (l link) answer(reason ssh.RejectionReason) (kind, number uint32, err error) {
	kind, body, err := l.read()
	if err != nil {
		return 0, 0, err
	}
	if len(body) < 4 {
		return 0, 0, fmt.Errorf("the reply is too long: %d bytes", len(body))
	}
	body = body[4:] // the request's number: there is but one
	switch kind {
	case sayDenied, sayFailure:
		var said struct{ Reason string }
		if err := ssh.Unmarshal(body, &said); err != nil {
			return 0, 0, err
		}
		return 0, 0, &ssh.OpenChannelError{Reason: reason, Message: said.Reason}
	}
	if len(body) >= 4 {
		number = binary.BigEndian.Uint32(body)
	}
	return kind, number, nil
}
