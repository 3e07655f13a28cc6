package api

import (
	"cmp"
	"fmt"
	"time"
)

// Held is what a lost connection means for what runs inside a session's job: shells, editors,
// copies and forwards. They wait until there is a connection again, and continue then.
type Held struct {
	Since   time.Time `json:"since"`          // when something last came from there
	Streams int       `json:"streams"`        // that wait, or have continued
	Waiting int       `json:"waiting"`        // bytes that wait on this computer to be sent there
	Until   time.Time `json:"until,omitzero"` // when that was over; zero: they wait
	// Lost are the streams that could not continue, for a cause.
	Lost  int    `json:"lost,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// IsOver reports whether nothing waits any more.
func (h Held) IsOver() bool { return h.Streams == 0 || !h.Until.IsZero() }

// OverText says how it ended; "": it has not.
func (h Held) OverText() string {
	after := DurationText(h.Until.Sub(h.Since).Round(time.Second))
	switch {
	case h.Until.IsZero():
		return ""
	case h.Lost > 0:
		return fmt.Sprintf("%s inside the job ended after %s without a connection: %s", streamsText(h.Lost), after, h.Cause)
	}
	return fmt.Sprintf("continued after %s; nothing was lost", after)
}

// HeldText says what waits, with its size in words.
func (h Held) HeldText(size func(int64) string) string {
	return fmt.Sprintf("held: %s, %s waiting", streamsText(h.Streams), size(int64(h.Waiting)))
}

func streamsText(n int) string {
	if n == 1 {
		return "1 stream"
	}
	return fmt.Sprintf("%d streams", n)
}

// Merge is what both say together. What waits now comes before what is over, and what is
// over before what was over earlier.
func (h Held) Merge(other Held) Held {
	switch {
	case !h.IsOver() && !other.IsOver():
		if other.Since.Before(h.Since) {
			h.Since = other.Since
		}
		h.Streams += other.Streams
		h.Waiting += other.Waiting
		return h
	case !other.IsOver():
		return other
	case !h.IsOver() || h.Until.After(other.Until):
		return h
	case h.Until.Equal(other.Until):
		h.Streams, h.Lost, h.Cause = h.Streams+other.Streams, h.Lost+other.Lost, cmp.Or(h.Cause, other.Cause)
		return h
	}
	return other
}
