package step

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzFrames shows that whatever a relay prints is read without a panic, and in bounds.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("Welcome!\nmark\n" + string(appendFrame(nil, 1, kindData, []byte("text")))))
	f.Add([]byte("mark\r\n"))
	f.Add([]byte("mark\n\x00\x00\x00\x01\x07\xff\xff\xff\xff"))
	f.Add(appendFrame(appendFrame([]byte("mark\n"), 1, kindOpened, nil), 1, kindRefused, []byte("{")))
	f.Add(appendFrame(appendFrame([]byte("mark\n"), 1, kindOpened, nil), 1, kindWindow, []byte{0, 0, 0, 1}))
	f.Add(appendFrame(appendFrame([]byte("mark\n"), 1, kindOpened, nil), 1, kindExit, []byte(`{"signal":"TERM"}`)))
	f.Fuzz(func(t *testing.T, said []byte) {
		r := newFrameReader(bytes.NewReader(said))
		if skipTo(r.in, "mark") != nil {
			return
		}
		c, ch := offline()
		for range 1000 {
			frame, err := r.next()
			if err != nil || c.handle(frame) != nil {
				return
			}
			if ch.stdout.Len()+ch.stderr.Len() > windowSize || ch.window > windowSize || len(frame.payload) > frameLimit {
				t.Fatal("more than the window")
			}
		}
	})
}

func TestOutputThatIsNotFramesIsAClearError(t *testing.T) {
	for said, want := range map[string]error{
		"":                                   errNoWelcome,
		"sh: python3: not found\n":           errNoWelcome,
		"mark\r\n":                           errLineEnds,
		strings.Repeat("y\n", mostBefore):    errMuch,
		"mark\nTraceback (most recent call)": errNoFrame,
		"mark\n\x00\x00\x00\x01\x07\xff\xff\xff\xff": errNoFrame,
		"mark\n\x00\x00": io.ErrUnexpectedEOF,
		"mark\n\x00\x00\x00\x01\x07\x00\x00\x00\x04x": io.ErrUnexpectedEOF,
	} {
		r := newFrameReader(strings.NewReader(said))
		err := skipTo(r.in, "mark")
		if err == nil {
			_, err = r.next()
		}
		if !errors.Is(err, want) {
			t.Errorf("%.40q: %v", said, err)
		}
	}
}

func TestARelayThatBreaksItsProtocolIsNotTrusted(t *testing.T) {
	full := bytes.Repeat([]byte("x"), frameLimit)
	for name, frames := range map[string][]frame{
		"a channel that was never opened":          {{2, kindData, nil}},
		"data for no channel":                      {{0, kindData, nil}},
		"data before it is open":                   {{1, kindData, []byte("x")}},
		"opened twice":                             {{1, kindOpened, nil}, {1, kindOpened, nil}},
		"a refusal that is not JSON":               {{1, kindRefused, []byte("no")}},
		"a short window":                           {{1, kindOpened, nil}, {1, kindWindow, []byte{1}}},
		"a large window":                           {{1, kindOpened, nil}, {1, kindWindow, []byte{0, 0, 0, 1}}},
		"data after its end":                       {{1, kindOpened, nil}, {1, kindEOF, nil}, {1, kindData, []byte("x")}},
		"an acknowledgement of more than was sent": {{0, kindAck, []byte{0, 0, 0, 0, 0, 0, 0, 1}}},
		"a short acknowledgement":                  {{0, kindAck, []byte{1}}},
		"two exits":                                {{1, kindOpened, nil}, {1, kindExit, []byte("{}")}, {1, kindExit, []byte("{}")}},
		"more than the window": append([]frame{{1, kindOpened, nil}},
			slicesRepeat(frame{1, kindData, full}, windowSize/frameLimit+1)...),
	} {
		c, _ := offline()
		var err error
		for _, f := range frames {
			err = c.handle(f)
		}
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func slicesRepeat(f frame, n int) (frames []frame) {
	for range n {
		frames = append(frames, f)
	}
	return frames
}

// offline is a connection without a relay, with a session that waits for its program.
func offline() (*Conn, *channel) {
	c := newConnection()
	ch := c.add(true)
	ch.opening = true
	return c, ch
}
