package node

import (
	"time"

	"tunctl/internal/api"
)

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
	h.Streams, h.Waiting, h.Full = now.Channels, now.Waiting, now.Full
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

// Held is what the last lost connection meant for what runs inside the job on this node.
func (n *Node) Held() api.Held {
	h := n.job.onHop.lastHeld()
	if n.job.steps != nil {
		h = h.Merge(n.job.steps.relay.lastHeld())
	}
	return h
}
