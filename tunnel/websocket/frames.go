// Package websocket reads the frames of a WebSocket (RFC 6455) as they pass: it neither opens nor
// changes one.
package websocket

import (
	"bytes"
	"encoding/binary"
)

// Of RFC 6455, section 5.2.
const (
	Final   = 0x80
	Masked  = 0x80
	Close   = 8
	Ping    = 9
	Pong    = 10
	opcode  = 0x0f
	length  = 0x7f
	control = 8

	controlLimit = 125 // bytes in a control frame
	headLimit    = 64 << 10
)

// Frames follows what one side of a WebSocket sends: a head of HTTP, then frames. The zero value
// waits for the head.
type Frames struct {
	// Message gets each message and each control frame when it is complete, unmasked; nil: nobody does.
	// Of a message that is longer than Limit it gets nil.
	Message func(kind byte, payload []byte)
	Limit   int

	At    uint64 // the bytes of frames so far
	Whole uint64 // the same after the last message, or control frame between messages, that was complete

	phase   phase
	head    []byte // of HTTP or of a frame, as far as it came
	first   byte   // of the frame's head
	mask    []byte
	at      uint64 // bytes of the frame's payload so far
	left    uint64 // and those that come yet
	kind    byte   // of the message
	within  bool   // a message, whose frames may have control frames between them
	message []byte
	control []byte
}

// phase is what a side of a WebSocket sends now.
type phase int

const (
	inHTTP phase = iota
	betweenFrames
	inFrame
	unreadable // it is no WebSocket
)

// SkipHead has the frames begin at once.
func (f *Frames) SkipHead() { f.phase = betweenFrames }

// Between reports whether a frame may be inserted now.
func (f *Frames) Between() bool { return f.phase == betweenFrames && len(f.head) == 0 }

// Readable reports whether it is a WebSocket, as far as it was seen.
func (f *Frames) Readable() bool { return f.phase != unreadable }

// Follow takes in what comes next.
func (f *Frames) Follow(b []byte) {
	for len(b) > 0 {
		n := 0
		switch f.phase {
		case inHTTP:
			b = f.followHTTP(b)
			continue
		case betweenFrames:
			n = min(f.headSize()-len(f.head), len(b))
			if f.head = append(f.head, b[:n]...); len(f.head) == f.headSize() {
				f.begin()
			}
		case inFrame:
			n = int(min(f.left, uint64(len(b))))
			f.take(b[:n])
		case unreadable:
			return
		}
		b = b[n:]
		f.At += uint64(n)
		if f.phase == inFrame && f.left == 0 {
			f.end()
		}
	}
}

// followHTTP skips the head of the request, or of the response that agrees.
func (f *Frames) followHTTP(b []byte) (rest []byte) {
	before := len(f.head)
	f.head = append(f.head, b...)
	end := bytes.Index(f.head, []byte("\r\n\r\n"))
	if end < 0 && len(f.head) <= headLimit {
		return nil
	}
	agreed := end >= 0 && (bytes.HasPrefix(f.head, []byte("GET ")) || bytes.HasPrefix(f.head, []byte("HTTP/1.1 101 ")))
	f.head = nil
	if !agreed {
		f.phase = unreadable
		return nil
	}
	f.phase = betweenFrames
	return b[end+4-before:]
}

// headSize is the size of the frame's head, as far as that is known.
func (f *Frames) headSize() int {
	if len(f.head) < 2 {
		return 2
	}
	size := 2
	switch f.head[1] & length {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if f.head[1]&Masked != 0 {
		size += 4
	}
	return size
}

func (f *Frames) begin() {
	size, rest := uint64(f.head[1]&length), f.head[2:]
	switch size {
	case 126:
		size, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case 127:
		size, rest = binary.BigEndian.Uint64(rest), rest[8:]
	}
	f.phase, f.first, f.mask, f.at, f.left, f.head = inFrame, f.head[0], rest, 0, size, nil
	if f.isControl() {
		if f.control = []byte{}; size > controlLimit {
			f.phase = unreadable
		}
	} else if !f.within {
		f.within, f.kind, f.message = true, f.first&opcode, []byte{}
	}
}

func (f *Frames) isControl() bool { return f.first&control != 0 }

// take takes in a part of a frame's payload.
func (f *Frames) take(b []byte) {
	to := &f.message
	if f.isControl() {
		to = &f.control
	} else if f.Message == nil || *to == nil || len(*to)+len(b) > f.Limit {
		to, f.message = nil, nil
	}
	if to != nil {
		*to = append(*to, b...)
		if len(f.mask) > 0 {
			part := (*to)[len(*to)-len(b):]
			for i := range part {
				part[i] ^= f.mask[(f.at+uint64(i))%4]
			}
		}
	}
	f.at += uint64(len(b))
	f.left -= uint64(len(b))
}

// end ends a frame.
func (f *Frames) end() {
	f.phase = betweenFrames
	kind, payload := f.first&opcode, f.control
	if !f.isControl() {
		if f.first&Final == 0 {
			return
		}
		kind, payload, f.message, f.within = f.kind, f.message, nil, false
	}
	if !f.within {
		f.Whole = f.At
	}
	if f.Message != nil {
		f.Message(kind, payload)
	}
}
