package step

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"tunctl/internal/api"
)

// ErrGone is the error of [Conn.Resume] if the relay has ended meanwhile.
var ErrGone = errors.New("the process of tunctl inside the job has ended")

// ErrNotTold is the error of [Conn.Close] if the relay may still run.
var ErrNotTold = errors.New("the relay inside the job could not be told to end")

// ErrKept is the error of [End] if the relay keeps something for pages that may come back.
var ErrKept = errors.New("the relay inside the job keeps what pages may come back for")

// ErrLeft says that there may be a relay of a client that is gone, which could not be reached yet.
var ErrLeft = errors.New("the relay that was left inside the job cannot be reached yet")

// errElsewhere is that of a process which could not see a relay that runs.
var errElsewhere = errors.New("the login on the node does not see the process of tunctl inside the job")

// errNoWayBack is that of a relay which must not outlive its way.
var errNoWayBack = errors.New("the relay inside the job cannot be resumed")

// longestAnswer bounds the relay's answer to a client that comes back.
const longestAnswer = 4 << 10

// Ticket is what a later client needs to end the relay; it is empty if the relay ends with
// its way.
func (c *Conn) Ticket() Ticket { return c.ticket }

// Held is what waits now, without times, and what had to wait before the way was found that there is.
func (c *Conn) Held() api.Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Held{Streams: len(c.channels), Waiting: len(c.stream.kept), Full: c.stream.fullLocked(), Paused: c.paused}
}

// Lost is closed when the way to the relay is lost. After Resume there is another.
func (c *Conn) Lost() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream.lost
}

// Resume continues over another way: rw is a process on the same node that runs
// [Command]. The way before may still seem to work; it is given up. All channels continue;
// nothing of what they carry is lost or comes twice. If Resume fails, it has closed rw, and
// can be tried again, unless the error is [ErrGone]: then the connection has ended.
func (c *Conn) Resume(ctx context.Context, rw io.ReadWriteCloser) error {
	c.resuming.Lock()
	defer c.resuming.Unlock()
	c.attempts++
	c.mu.Lock()
	resumes, why := c.stream.resumes, errNoWayBack
	if c.ended {
		why = c.downLocked()
	}
	if resumes {
		c.stream.loseLocked(nil) // from here on nothing is received
	}
	request := comeback{Mark: newMark(), Ticket: c.ticket, Attempt: c.attempts, Received: c.stream.received}
	c.mu.Unlock()
	if !resumes { // nor does a connection that has ended
		_ = rw.Close()
		return why
	}
	err := launch(ctx, rw, connector, request.Mark, request, func(in *bufio.Reader) error { return c.continueOver(rw, in) })
	if errors.Is(err, ErrGone) || errors.Is(err, errBroken) {
		c.end(err)
	}
	return err
}

// readAnswer reads the relay's answer to a client that came back.
func readAnswer(in *bufio.Reader) (answer continuation, err error) {
	line, err := api.ReadLine(in, longestAnswer)
	if err != nil {
		return answer, fmt.Errorf("the relay inside the job did not let its client come back: %w", noEOF(err))
	}
	if json.Unmarshal([]byte(line), &answer) != nil {
		return answer, errBroken
	}
	if answer.Gone == nil {
		return answer, nil
	}
	if !*answer.Gone {
		return answer, errElsewhere
	}
	return answer, ErrGone
}

// continueOver reads what the relay has, and continues.
func (c *Conn) continueOver(rw io.ReadWriteCloser, in *bufio.Reader) error {
	answer, err := readAnswer(in)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return c.downLocked()
	}
	s := c.stream
	if !s.acknowledgeLocked(answer.Received) {
		return fmt.Errorf("%w: it has what it was not sent", errBroken)
	}
	s.sent, s.told = s.acked, s.received
	c.unanswered, c.paused = 0, answer.Paused
	s.openLocked(&way{rw, in})
	return nil
}

// End ends a relay whose client is gone, and everything that it runs: rw is a process on the
// same node that runs [Command]. It closes rw. A relay that is gone is no error.
func End(ctx context.Context, rw io.ReadWriteCloser, t Ticket) error {
	defer func() { _ = rw.Close() }()
	request := comeback{Mark: newMark(), Ticket: t, End: true}
	err := launch(ctx, rw, connector, request.Mark, request, func(in *bufio.Reader) error {
		answer, err := readAnswer(in)
		if answer.Kept {
			return ErrKept
		}
		return err
	})
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// TakeOver makes the relay of a client that is gone this one's, with what it keeps for pages: rw is a process
// on the same node that runs [Command]. It closes rw if that fails.
func TakeOver(ctx context.Context, rw io.ReadWriteCloser, t Ticket, o Options) (*Conn, error) {
	c := newConnection(o)
	c.ticket = t
	request := comeback{Mark: newMark(), Ticket: t, New: true}
	err := launch(ctx, rw, connector, request.Mark, request, func(in *bufio.Reader) error {
		if _, err := readAnswer(in); err != nil {
			return err
		}
		c.mu.Lock()
		c.stream.openLocked(&way{rw, in})
		c.sendLocked(0, kindServer, binary.BigEndian.AppendUint32(nil, uint32(o.Port)))
		c.mu.Unlock()
		return c.welcome()
	})
	if err != nil {
		return nil, err
	}
	c.serve(true)
	return c, nil
}

// CanTakeOver reports whether a relay speaks this client's protocol.
func (t Ticket) CanTakeOver() bool { return t.Protocol == protocol }
