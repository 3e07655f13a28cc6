package api

import (
	"cmp"
	"time"
)

// Held is what a lost connection means for what runs inside a session's job: shells, editors,
// copies and forwards. They wait until there is a connection again, and continue then.
type Held struct {
	Since   time.Time `json:"since"`          // when something last came from there
	Streams int       `json:"streams"`        // that wait, or have continued
	Waiting int       `json:"waiting"`        // bytes that wait on this computer to be sent there
	Full    bool      `json:"full,omitempty"` // programs that send more wait
	Until   time.Time `json:"until,omitzero"` // when that was over; zero: they wait
	// Paused are the programs that waited meanwhile: the buffer for their output was full. That is known
	// only afterwards.
	Paused int `json:"paused,omitempty"`
	// Lost are the streams that could not continue, for a cause.
	Lost  int    `json:"lost,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Earlier is the last interruption before this one in which streams were lost.
	Earlier *Held `json:"earlier,omitempty"`
}

// IsOver reports whether nothing waits any more.
func (h Held) IsOver() bool { return h.Streams == 0 || !h.Until.IsZero() }

// Merge is what both say together. Interruptions at the same time are one; otherwise the one that
// waits counts, or the later one.
func (h Held) Merge(other Held) Held {
	earlier, later := h, other
	if !h.IsOver() || other.IsOver() && other.Until.Before(h.Until) {
		earlier, later = other, h
	}
	if earlier.IsOver() && (!later.IsOver() || earlier.Until.Before(later.Since)) {
		later.Earlier = lastLoss(earlier.Loss(), later.Earlier)
		return later
	}
	if earlier.Since.Before(later.Since) {
		later.Since = earlier.Since
	}
	later.Streams += earlier.Streams
	later.Waiting += earlier.Waiting
	later.Paused += earlier.Paused
	later.Lost += earlier.Lost
	later.Full, later.Cause = later.Full || earlier.Full, cmp.Or(later.Cause, earlier.Cause)
	later.Earlier = lastLoss(earlier.Earlier, later.Earlier)
	return later
}

// Loss is the last interruption in which streams were lost, this one or an earlier one; nil: there was none.
func (h Held) Loss() *Held {
	if h.Lost == 0 {
		return h.Earlier
	}
	h.Earlier = nil
	return &h
}

func lastLoss(a, b *Held) *Held {
	if a == nil || b != nil && b.Until.After(a.Until) {
		return b
	}
	return a
}
