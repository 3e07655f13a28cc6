package forward

import (
	"context"
	"time"
)

// speakFirst is how long a client of a HTTP target is given to speak before its
// server is dialled anyway.
const speakFirst = time.Second

// tryWarm sends the client's first words over a channel that is open already. It
// returns nil when a fresh one must be dialled: there is none, the words may not
// be said twice, or the channel turned out dead before anything was answered.
func (v *visit) tryWarm(ctx context.Context, warm *warmPool) *end {
	if !warm.ready() {
		return nil
	}
	speak, cancel := context.WithTimeout(ctx, speakFirst)
	defer cancel()
	if v.flight.opening(speak).kind != repeatable {
		return nil
	}
	conn := warm.take()
	if conn == nil {
		return nil
	}
	sent, err := v.ask(ctx, conn)
	if err != nil {
		_ = conn.Close()
		v.log.Debug("an open channel was not used", "err", err)
		return nil
	}
	v.counters.sent(sent)
	v.flight.skip(sent)
	return &end{Conn: conn}
}

// ask passes on what the client says until the answer begins, and returns how much
// that was. An error means that it can all be said again elsewhere. The end of what the
// client says is passed on at once, too: a server stops working for one that has left.
// Whatever the far side does after that is its answer.
func (v *visit) ask(ctx context.Context, conn *warmConn) (sent int, err error) {
	ended := false
	for {
		said, more := v.flight.peek()
		if v.flight.gone() {
			return sent, errGone
		}
		if len(said) > sent {
			// A channel that ended meanwhile says so when it is read.
			_, _ = conn.Write(said[sent:])
			sent = len(said)
		}
		if !ended && v.flight.ended() && !conn.spoke() {
			ended = true
			_ = conn.CloseWrite()
		}
		select {
		case <-conn.ready:
			if ended {
				return sent, nil
			}
			return sent, conn.unanswered()
		case <-more:
		case <-ctx.Done():
			return sent, ctx.Err()
		}
	}
}
