// Package steptest is a relay of package step that needs no Python, for tests of what is
// above it. Its windows are endless. It ends with the way to it.
package steptest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
)

// The frames of package step that it knows.
const (
	hello  = 1
	ping   = 2
	end    = 3
	open   = 4
	opened = 5
	data   = 7
	eof    = 9
	window = 10
	closes = 11
	exit   = 12
	ack    = 17
)

// Request is what a client wants to open.
type Request struct {
	Kind    string // "exec", "tcp" and others
	Command []byte
}

// relay is one that runs.
type relay struct {
	handle func(Request, io.ReadWriter) uint32
	inputs map[uint32]*io.PipeWriter
	wg     sync.WaitGroup

	mu  sync.Mutex
	out io.Writer
}

// Serve is the relay, up to the end of its client. It has handle serve each channel, and
// return the exit status of a program.
func Serve(in io.Reader, out io.Writer, handle func(Request, io.ReadWriter) uint32) {
	r := &relay{handle: handle, inputs: map[uint32]*io.PipeWriter{}, out: out}
	buffered := bufio.NewReader(in)
	if r.greet(buffered) == nil {
		for r.next(buffered) == nil {
		}
	}
	for _, input := range r.inputs {
		_ = input.Close()
	}
	r.wg.Wait()
}

// greet takes the program and the options, and says that it runs.
func (r *relay) greet(in *bufio.Reader) error {
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(strings.TrimSpace(line))
	if err == nil {
		_, err = in.Discard(size)
	}
	if err != nil {
		return err
	}
	line, err = in.ReadString('\n')
	if err != nil {
		return err
	}
	var options struct {
		Mark     string
		Received *uint64 // of a client that comes back
	}
	if err := json.Unmarshal([]byte(line), &options); err != nil {
		return err
	}
	if options.Received != nil {
		_, _ = io.WriteString(r.out, options.Mark+"\n{\"gone\": true}\n")
		return io.EOF
	}
	if _, err := io.WriteString(r.out, options.Mark+"\n"); err != nil {
		return err
	}
	return r.send(0, hello, []byte(`{"node":"cn01","inside":true,"environ":"job"}`))
}

// next handles one frame.
func (r *relay) next(in *bufio.Reader) error {
	var header [9]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return err
	}
	channel := binary.BigEndian.Uint32(header[:])
	payload := make([]byte, binary.BigEndian.Uint32(header[5:]))
	if _, err := io.ReadFull(in, payload); err != nil {
		return err
	}
	input := r.inputs[channel]
	switch kind := header[4]; {
	case kind == ping:
		return r.send(0, ping, nil)
	case kind == end:
		_ = r.send(0, end, nil)
		return io.EOF
	case kind == open:
		return r.open(channel, payload)
	case input == nil: // it was closed meanwhile
	case kind == data:
		_, _ = input.Write(payload) // fails when nobody reads it any more
		return r.send(channel, window, binary.BigEndian.AppendUint32(nil, uint32(len(payload))))
	case kind == eof:
		return input.Close()
	case kind == closes:
		delete(r.inputs, channel)
		return input.CloseWithError(io.ErrClosedPipe)
	}
	return nil
}

func (r *relay) open(channel uint32, payload []byte) error {
	var request Request
	if err := json.Unmarshal(payload, &request); err != nil {
		return err
	}
	if err := r.send(channel, opened, nil); err != nil {
		return err
	}
	input, output := io.Pipe()
	r.inputs[channel] = output
	r.wg.Go(func() {
		status := r.handle(request, stream{input, r, channel})
		_ = input.Close()
		_ = r.send(channel, eof, nil)
		if request.Kind == "exec" || request.Kind == "shell" {
			_ = r.send(channel, exit, []byte(`{"status":`+strconv.Itoa(int(status))+`}`))
		}
		_ = r.send(channel, closes, nil)
	})
	return nil
}

func (r *relay) send(channel uint32, kind byte, payload []byte) error {
	frame := append(binary.BigEndian.AppendUint32(nil, channel), kind)
	frame = append(binary.BigEndian.AppendUint32(frame, uint32(len(payload))), payload...)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.out.Write(frame)
	return err
}

// stream is a channel's data.
type stream struct {
	io.Reader
	relay   *relay
	channel uint32
}

func (s stream) Write(p []byte) (int, error) {
	if err := s.relay.send(s.channel, data, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
