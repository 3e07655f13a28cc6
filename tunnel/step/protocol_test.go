package step

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"tunctl/internal/api"
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

// TestARelayThatAcknowledgesNothingFillsNoMemory: it lets us send without end.
func TestARelayThatAcknowledgesNothingFillsNoMemory(t *testing.T) {
	c, ch := offline()
	if err := c.handle(frame{1, kindOpened, nil}); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, dataSize)
	for !c.Held().Full {
		_, _ = ch.Write(data)
		c.stream.sent = uint64(len(c.stream.kept)) // a way takes it
		_ = c.handle(frame{1, kindWindow, binary.BigEndian.AppendUint32(nil, dataSize)})
	}
	if kept := c.Held().Waiting; kept < keptLimit || kept > keptLimit+2*dataSize {
		t.Errorf("%d bytes are kept", kept)
	}
	for c.stream.err == nil && c.Held().Waiting <= mostKept+frameLimit {
		c.mu.Lock()
		c.sendLocked(1, kindOpen, make([]byte, frameLimit)) // without waiting
		c.mu.Unlock()
	}
	if !errors.Is(c.stream.err, errBroken) {
		t.Errorf("%d bytes are kept, %v", c.Held().Waiting, c.stream.err)
	}
}

// TestARelaysAnswerToItsClientsReturnIsBounded has a process on the node pretend to be one.
func TestARelaysAnswerToItsClientsReturnIsBounded(t *testing.T) {
	for answer, want := range map[string]error{
		"{\"received\": 1}\n":                   errBroken, // nothing was sent
		"{\"received\": -1}\n":                  errBroken,
		"{\"received\": 0, \"paused\": 1e99}\n": errBroken,
		"no JSON\n":                             errBroken,
		"":                                      io.ErrUnexpectedEOF,
		strings.Repeat("x", longestAnswer+1):    api.ErrLongLine,
		"{\"gone\": true}\n":                    ErrGone,
		"{\"gone\": false}\n":                   errElsewhere,
		"{\"received\": 0}\n\x00\x00\x00\x00\xff....": errNoFrame,
	} {
		c := newConnection(Options{})
		c.stream.resumes, c.ticket = true, Ticket{Socket: "socket", Secret: "secret"}
		c.wg.Go(c.read)
		ours, theirs := net.Pipe()
		go pretend(theirs, answer)
		err := c.Resume(t.Context(), ours)
		if errors.Is(want, errNoFrame) && err == nil {
			<-c.Done()
			err = c.Err()
		}
		if !errors.Is(err, want) {
			t.Errorf("%.40q: %v, want %v", answer, err, want)
		}
		c.end(nil)
		c.wg.Wait()
	}
}

// pretend is a process on a node that answers instead of the relay.
func pretend(rw io.ReadWriteCloser, answer string) {
	defer func() { _ = rw.Close() }()
	in := bufio.NewReader(rw)
	line, _ := in.ReadString('\n')
	size, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	_, _ = io.CopyN(io.Discard, in, size)
	var request comeback
	line, _ = in.ReadString('\n')
	_ = json.Unmarshal([]byte(line), &request)
	_, _ = io.WriteString(rw, request.Mark+"\n"+answer)
}

func slicesRepeat(f frame, n int) (frames []frame) {
	for range n {
		frames = append(frames, f)
	}
	return frames
}

// offline is a connection without a relay, with a session that waits for its program.
func offline() (*Conn, *channel) {
	c := newConnection(Options{})
	ch, _ := c.add(true)
	ch.opening = true
	return c, ch
}
