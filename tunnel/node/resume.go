package node

import (
	"context"
	"errors"
	"io"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/step"
)

// keep looks after a relay until it has ended. While it has users, it is resumed over another
// stream when its own was lost, or the host has another connection.
func (r *sharedRelay) keep(run *runningRelay) {
	for !run.over() && r.ctx.Err() == nil {
		changed, lost := r.changed(), run.Lost()
		var again <-chan time.Time
		switch err := run.check(); {
		case !run.resumes:
		case errors.Is(err, tunnel.ErrReplaced):
			lost, again = nil, r.comeBack(run)
		default:
			r.noteSilence(run, err != nil)
		}
		select {
		case <-run.Done():
		case <-r.ctx.Done():
		case <-lost:
		case <-changed:
		case <-again:
		}
	}
	r.update(func() (news bool) {
		run.idle.Stop()
		return r.endedLocked(run)
	})
	r.forget(run)
}

// update changes what the lock guards, and tells if that is news about what is held.
func (r *sharedRelay) update(change func() (news bool)) {
	r.mu.Lock()
	news := change()
	r.mu.Unlock()
	if news {
		r.told()
	}
}

// noteSilence takes in whether the connection that the relay's stream is on responds. What was held meanwhile
// continues over it, if no other takes its place.
func (r *sharedRelay) noteSilence(run *runningRelay, silent bool) {
	r.update(func() (news bool) {
		if !silent {
			return r.held.end(0, nil)
		}
		return run.refCount > 0 && r.held.begin(run)
	})
}

// forget ends a relay, and removes its record, unless the relay could not be told.
func (r *sharedRelay) forget(run *runningRelay) {
	err := run.Close()
	if run.resumes {
		r.records.Remove(r.record(run.Ticket()), errors.Is(err, step.ErrNotTold))
	}
}

// comeBack tries once to resume a relay, or ends one that nobody uses. It returns when to try
// again; nil: when the link has changed.
func (r *sharedRelay) comeBack(run *runningRelay) <-chan time.Time {
	r.mu.Lock()
	switch {
	case r.running != run: // it was ended
		r.mu.Unlock()
		return nil
	case !run.neededLocked():
		r.endedLocked(run)
		r.mu.Unlock()
		_ = run.Close()
		return nil
	}
	news := r.held.begin(run)
	r.lostLocked(run)
	start, err := r.startLocked()
	r.mu.Unlock()
	if news {
		r.told()
	}
	if start != nil {
		<-start.done
		err = start.err
	}
	switch {
	case err == nil:
		return time.After(0) // the new stream is watched, too
	case errors.Is(err, api.ErrDown):
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.After(time.Until(r.pause.until))
}

// lostLocked takes in that the relay's stream was lost, once. Streams that end early although the
// host is connected are not replaced in a loop: each is a job step.
func (r *sharedRelay) lostLocked(run *runningRelay) {
	switch {
	case run.since.IsZero():
	case run.traffic.Stream().Lost() != nil || time.Since(run.since) >= r.limits.StableAfter:
		r.pause = pause{}
	default:
		r.pause.endedEarly(errStreamEnded, r.limits)
	}
	run.since = time.Time{}
}

var errStreamEnded = errors.New("the way to the relay inside the job ended soon after its start")

// resume has a relay continue over another stream, by whichever way leads onto its node. The error
// says why it does not yet. That no way does is never final: only the relay itself says that it has
// ended, or the owner of the node, who asks the scheduler.
func (r *sharedRelay) resume(run *runningRelay) error {
	stream, err := r.byAnyWay(r.ctx, func(ctx context.Context, process io.ReadWriteCloser) error {
		return run.Resume(ctx, process)
	})
	r.update(func() (news bool) {
		r.starting = nil
		switch {
		case err == nil:
			run.traffic.Move(stream)
			run.since = time.Now()
			news = r.held.end(run.Held().Paused, nil)
			r.log.Info("the relay on the node continues over another connection")
		case run.over(): // it is gone; the next one is started if it is needed
			news = r.held.end(0, run.Err())
			err = nil
		default:
			r.failedLocked(err)
		}
		return news
	})
	return err
}

// byAnyWay has join reach a relay that runs, by the route over which it was started or by another.
func (r *sharedRelay) byAnyWay(ctx context.Context, join joinFunc) (*tunnel.Stream, error) {
	stream, err := r.start(ctx, true, join)
	if r.otherWay == nil || !failure.IsRoute(err) && !jobEnded(err) {
		return stream, err
	}
	stream, other := r.otherWay(ctx, true, join)
	if failure.IsRoute(other) || jobEnded(other) {
		return nil, err
	}
	return stream, other
}

// held is what the last lost connection meant for a relay's users. The sharedRelay's lock
// guards it.
type held struct{ api.Held }

// begin notes that a relay has lost its way, once.
func (h *held) begin(run *runningRelay) (news bool) {
	if news = h.IsOver(); news {
		h.Held = api.Held{Since: run.traffic.Stream().LastHeard().Round(0), Earlier: h.Loss()}
	}
	h.count(run)
	return news
}

func (h *held) count(run *runningRelay) {
	now := run.Held()
	h.Streams, h.Waiting, h.Full = now.Streams, now.Waiting, now.Full
}

// end notes that the streams have continued, or why they could not.
func (h *held) end(paused int, lost error) (news bool) {
	if h.IsOver() {
		return false
	}
	h.Until, h.Waiting, h.Full, h.Paused = time.Now().Round(0), 0, false, paused
	if lost != nil {
		h.Lost, h.Streams, h.Cause = h.Streams, 0, lost.Error()
	}
	return true
}

// lastHeld is what the last lost connection meant.
func (r *sharedRelay) lastHeld() api.Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.running; run != nil && !r.held.IsOver() {
		r.held.count(run)
	}
	return r.held.Held
}

// Cells are those of notebooks on this node whose page is gone, by the name of the relay that has told of them.
func (n *Node) Cells() map[string]api.Cells {
	cells := map[string]api.Cells{}
	for _, r := range n.job.relays() {
		r.mu.Lock()
		if r.running != nil && r.running.TellsCells() {
			cells[r.running.Ticket().Socket] = r.running.Cells()
		}
		r.mu.Unlock()
	}
	return cells
}

// Held is what the last lost connection meant for what runs inside the job on this node.
func (n *Node) Held() (h api.Held) {
	for _, r := range n.job.relays() {
		h = h.Merge(r.lastHeld())
	}
	return h
}
