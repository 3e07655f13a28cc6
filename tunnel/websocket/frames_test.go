package websocket

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os/exec"
	"testing"

	"tunctl/internal/dev/testprogram"
)

const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

// frame is one frame, whose payload is masked if mask has four bytes.
func frame(first byte, payload, mask []byte) []byte {
	b := []byte{first, 0}
	switch n := len(payload); {
	case n < 126:
		b[1] = byte(n)
	case n < 1<<16:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if len(mask) == 4 {
		b[1] |= Masked
		b = append(b, mask...)
	}
	at := len(b)
	b = append(b, payload...)
	for i := range b[at:] {
		if len(mask) == 4 {
			b[at+i] ^= mask[i%4]
		}
	}
	return b
}

const limit = 1 << 10

// followed is what was read of a stream that came in parts.
type followed struct {
	At, Whole uint64
	Readable  bool
	messages  [][]byte
}

func follow(t *testing.T, parts ...[]byte) (f followed) {
	t.Helper()
	frames := Frames{Limit: limit}
	frames.Message = func(_ byte, b []byte) {
		if len(b) > limit {
			t.Errorf("a message of %d bytes was kept", len(b))
		}
		f.messages = append(f.messages, b)
	}
	given := 0
	for _, part := range parts {
		frames.Follow(part)
		given += len(part)
		if frames.Whole > frames.At || frames.At > uint64(given) {
			t.Errorf("at %d of %d, whole up to %d", frames.At, given, frames.Whole)
		}
	}
	f.At, f.Whole, f.Readable = frames.At, frames.Whole, frames.Readable()
	return f
}

func split(b []byte, dice *rand.Rand) (parts [][]byte) {
	for len(b) > 0 {
		n := 1 + dice.IntN(min(len(b), 1+dice.IntN(500)))
		parts, b = append(parts, b[:n]), b[n:]
	}
	return parts
}

func FuzzFrames(f *testing.F) {
	text := frame(Final|1, []byte("text"), []byte("mask"))
	for _, b := range [][]byte{
		text, frame(1, bytes.Repeat([]byte("x"), 200), nil), append(frame(1, []byte("a"), nil), frame(Final, []byte("b"), nil)...),
		frame(Final|2, make([]byte, 70000), nil), frame(Final|Ping, make([]byte, 125), []byte("mask")),
		frame(Final|Ping, make([]byte, 126), nil),
		{0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255, 1},
		{0x81},
		text[:7],
		{0xff, 0xff},
	} {
		f.Add(b, uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		b = append([]byte(head), b...)
		whole, parts := follow(t, b), follow(t, split(b, rand.New(rand.NewPCG(seed, 0)))...)
		if whole.At != parts.At || whole.Whole != parts.Whole || whole.Readable != parts.Readable || len(whole.messages) != len(parts.messages) {
			t.Errorf("as a whole %+v, in parts %+v", whole, parts)
		}
	})
}

// randomStream is one of frames, of which a few are wrong.
func randomStream(dice *rand.Rand) []byte {
	b := []byte(head)
	for range dice.IntN(12) {
		size := []int{0, 1, 125, 126, 200, 70000}[dice.IntN(6)]
		first := byte([]int{0x81, 0x82, 0x01, 0x00, 0x80, 0x89, 0x8a, 0x88}[dice.IntN(8)])
		if first&8 != 0 && dice.IntN(20) > 0 {
			size = min(size, 125)
		}
		var mask []byte
		if dice.IntN(2) == 0 {
			mask = []byte{byte(dice.Int()), 0, 7, byte(dice.Int())}
		}
		b = append(b, frame(first, make([]byte, size), mask)...)
	}
	if n := len(b) - len(head); n > 0 && dice.IntN(5) == 0 {
		b[len(head)+dice.IntN(n)] ^= byte(1 << dice.IntN(8))
	}
	return b[:len(b)-dice.IntN(min(9, len(b)))]
}

// inPython follows one stream a line, as the relay inside the job does.
const inPython = `
import re, struct, sys, json
COUNT = struct.Struct(">Q")
exec(open("../step/relay/websocket.py").read())
for line in sys.stdin:
    f, readable = Frames(b"HTTP/1.1 101 "), True
    for part in json.loads(line):
        try:
            f.follow(bytes.fromhex(part))
        except ValueError:
            readable = False
            break
    print(json.dumps({"At": f.at, "Whole": f.whole, "Readable": readable}))
`

func TestFramesInPython(t *testing.T) {
	python := testprogram.Need(t, "python3")
	dice := rand.New(rand.NewPCG(5, 5))
	var in bytes.Buffer
	var want []followed
	for range 500 {
		parts := split(randomStream(dice), dice)
		want = append(want, follow(t, parts...))
		var list []string
		for _, part := range parts {
			list = append(list, hex.EncodeToString(part))
		}
		_ = json.NewEncoder(&in).Encode(list)
	}
	cmd := exec.Command(python, "-c", inPython)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	unreadable := 0
	for i, from := 0, json.NewDecoder(bytes.NewReader(out)); ; i++ {
		var got followed
		if err := from.Decode(&got); err == io.EOF && i == len(want) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if got.Readable != want[i].Readable || got.Readable && (got.At != want[i].At || got.Whole != want[i].Whole) {
			t.Errorf("stream %d: at %d, whole %d, %v; in Go at %d, whole %d, %v", i, got.At, got.Whole, got.Readable, want[i].At, want[i].Whole, want[i].Readable)
		}
		if !got.Readable {
			unreadable++
		}
	}
	if unreadable < 5 || unreadable > 400 {
		t.Errorf("%d streams could not be read", unreadable)
	}
}

func TestFramesMemory(t *testing.T) {
	for name, parts := range map[string][][]byte{
		"a frame without an end":     {{0x81, 127, 127, 255, 255, 255, 255, 255, 255, 255}, make([]byte, 8<<20)},
		"a message without an end":   {bytes.Repeat(frame(1, make([]byte, 1000), nil), 8000)},
		"a million small messages":   {bytes.Repeat(frame(Final|1, []byte("x"), []byte("mask")), 1e6)},
		"control frames within one":  {frame(1, nil, nil), bytes.Repeat(frame(Final|Ping, make([]byte, 125), nil), 50000)},
		"a control frame too long":   {frame(Final|Ping, make([]byte, 300), nil), make([]byte, 8<<20)},
		"a head of HTTP without end": {bytes.Repeat([]byte("x"), 8<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			frames := Frames{Limit: limit, Message: func(_ byte, b []byte) {
				if len(b) > limit {
					t.Errorf("a message of %d bytes was kept", len(b))
				}
			}}
			if name != "a head of HTTP without end" {
				frames.SkipHead()
			}
			for _, part := range parts {
				for from := 0; from < len(part); from += 64 << 10 {
					frames.Follow(part[from:min(from+64<<10, len(part))])
					if kept := cap(frames.head) + cap(frames.message) + cap(frames.control); kept > limit+256<<10 {
						t.Fatalf("%d bytes are kept", kept)
					}
				}
			}
		})
	}
}
