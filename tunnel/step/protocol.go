package step

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"tunctl/internal/api"
)

// The client sends the relay's length in bytes as a line, the relay itself, and a line of
// JSON (hello). The relay answers with the line's mark on its standard output, where the
// start-up files of shells may have printed something before. From there on both ways
// carry frames:
//
//	channel  uint32, big-endian; 0 is the connection itself
//	kind     byte
//	length   uint32, at most frameLimit
//	payload
//
// The client numbers channels from 1 and uses no number twice, so that frames for a
// channel which the receiver has closed can be ignored. Whoever closes a channel says so
// once and waits for nothing.
//
// A side may send windowSize bytes of data on a channel, and then what the other side
// allows by kindWindow; standard output and standard error share a window.
//
// Both sides count the bytes of all frames, and keep what the other side has not
// acknowledged by kindAck. If the way is lost, the client sends a connector to the node
// instead of the relay, with a line of JSON (comeback). The connector joins its input and
// output to the relay's socket; the relay answers with a line of JSON (continuation). Then
// frames continue in both directions where the receiver's count ended, which may be within
// one.
const (
	kindHello   byte = iota + 1 // relay: JSON (Info), the first frame
	kindPing                    // client, and the relay's answer
	kindEnd                     // client: end everything; relay: it ends
	kindOpen                    // client: JSON (openRequest)
	kindOpened                  // relay
	kindRefused                 // relay: JSON (refusal)
	kindData                    // both: bytes
	kindStderr                  // relay: bytes of standard error
	kindEOF                     // both: no more data
	kindWindow                  // both: uint32, more bytes that may be sent
	kindClose                   // both
	kindExit                    // relay: JSON (exit), after all output
	kindResize                  // client: rows, columns, width and height in pixels, uint16 each
	kindSignal                  // client: a name of RFC 4254, section 6.10
	kindEOW                     // client: it reads no more (eow@openssh.com)
	kindServer                  // client: uint32, the port of the job's server, which has changed; for no channel
	kindAck                     // both: uint64, how many bytes were received
	kindCell                    // client: JSON (Cell), before its request; of a kernel, as are the next two
	kindDone                    // client: the id of a cell whose end the page has; "": of all
	kindTaken                   // client: uint64, up to where the page has the server's frames
	kindKernels                 // relay: JSON (api.Cells); for no channel
)

// protocol is the version of what a client needs to take over a relay of another one.
const protocol = 1

const (
	headerSize = 9
	frameLimit = 256 << 10
	windowSize = 2 << 20
	// dataSize is how much one frame of ours carries, so that channels take turns.
	dataSize = 32 << 10
	// bufferSize is how much is read at once.
	bufferSize = 64 << 10
)

// hello tells the relay what to do.
type hello struct {
	Mark    string  `json:"mark"`
	Job     string  `json:"job"`
	Port    int     `json:"port"`
	Silence float64 `json:"silence"` // seconds without a frame after which it ends
	Hold    float64 `json:"hold"`    // the same inside the job while something waits for a client that can come back
	Ticket
}

// Ticket lets a client come back to its relay. Whoever has it can use the relay.
type Ticket struct {
	Socket string `json:"socket,omitempty"` // the name of an abstract unix socket
	Secret string `json:"secret,omitempty"`
	Where  string `json:"where,omitempty"` // what sees the socket, as the relay says; "": not known
	// Protocol is the version that the relay speaks; 0: one that cannot be taken over.
	Protocol int `json:"protocol,omitempty"`
}

// comeback tells a connector where the relay is, and the relay what the client has.
type comeback struct {
	Mark string `json:"mark"`
	Ticket
	Attempt  uint64 `json:"attempt"` // of this client, counted from 1; unused with End
	Received uint64 `json:"received"`
	End      bool   `json:"end"` // the relay is to end, unless it keeps something for pages
	New      bool   `json:"new"` // it is another client, which takes the relay over
}

// continuation is the relay's answer, or the connector's.
type continuation struct {
	Received uint64 `json:"received"`
	Paused   int    `json:"paused"` // channels that filled their windows
	Gone     *bool  `json:"gone"`   // there is no relay; false: it is not seen from there
	Kept     bool   `json:"kept"`   // it does not end, since it keeps something for pages
}

// openRequest opens a channel. Bytes are base64: commands and paths need not be UTF-8.
type openRequest struct {
	Kind    string      `json:"kind"` // "exec", "shell", "sftp", "tcp" or "unix"; "kernel" continues one
	Command []byte      `json:"command,omitempty"`
	Env     [][2][]byte `json:"env,omitempty"`
	Pty     *terminal   `json:"pty,omitempty"`
	Host    string      `json:"host,omitempty"`
	Port    uint32      `json:"port,omitempty"`
	Path    []byte      `json:"path,omitempty"`
	Kernel  *Kernel     `json:"kernel,omitempty"`
}

type terminal struct {
	Term  string      `json:"term"`
	Size  [4]uint16   `json:"size"`  // as in kindResize
	Modes [][2]uint32 `json:"modes"` // RFC 4254, section 8
}

type refusal struct {
	Message string `json:"message"`
	Errno   int    `json:"errno"`
}

type exit struct {
	Status uint32 `json:"status"`
	Signal string `json:"signal"`
	Core   bool   `json:"core"`
}

type frame struct {
	channel uint32
	kind    byte
	payload []byte
}

func appendFrame(to []byte, channel uint32, kind byte, payload []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, channel)
	to = append(to, kind)
	to = binary.BigEndian.AppendUint32(to, uint32(len(payload)))
	return append(to, payload...)
}

// frameReader reads frames. Something that is not a frame is an error: there is no way
// to find the next one.
type frameReader struct {
	in  *bufio.Reader
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(r, bufferSize)}
}

// next reads a frame, whose payload is valid until the next call.
func (r *frameReader) next() (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r.in, header[:]); err != nil {
		return frame{}, err
	}
	f := frame{channel: binary.BigEndian.Uint32(header[:]), kind: header[4]}
	length := binary.BigEndian.Uint32(header[5:])
	if f.kind < kindHello || f.kind > kindKernels || length > frameLimit {
		return frame{}, fmt.Errorf("%w: %q", errNoFrame, header[:])
	}
	if cap(r.buf) < int(length) {
		r.buf = make([]byte, max(int(length), dataSize))
	}
	f.payload = r.buf[:length]
	if _, err := io.ReadFull(r.in, f.payload); err != nil {
		return frame{}, noEOF(err)
	}
	return f, nil
}

var (
	errNoFrame   = errors.New("the relay inside the job sent something that is not a frame; perhaps a program there prints into it")
	errLineEnds  = errors.New("the way to the relay inside the job changes line ends, so it cannot carry data")
	errMuch      = errors.New("the relay inside the job does not start: its shell prints without end")
	errBroken    = errors.New("the relay inside the job broke its protocol")
	errNoWelcome = errors.New("the relay inside the job did not start")
)

// mostBefore is how much the start-up files of shells may print.
const mostBefore = 1 << 20

// skipTo reads up to the end of the line that ends with mark.
func skipTo(in *bufio.Reader, mark string) error {
	last := ""
	for left := mostBefore; ; {
		line, err := api.ReadLine(in, left)
		switch {
		case errors.Is(err, api.ErrLongLine):
			return errMuch
		case strings.HasSuffix(line, mark+"\n"):
			return nil
		case strings.Contains(line, mark):
			return errLineEnds
		}
		if strings.TrimSpace(line) != "" {
			last = line
		}
		if said := api.NewRemoteText(last); errors.Is(err, io.EOF) && !said.IsZero() {
			return fmt.Errorf("%w: %s", errNoWelcome, said)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errNoWelcome, noEOF(err))
		}
		left -= len(line)
	}
}

// noEOF makes an end in the middle an error that is not taken for a regular end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
