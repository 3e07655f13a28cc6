package jobwatch

import (
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
)

// silence is how long the scheduler has not answered.
type silence struct {
	since time.Time
	times int
	words string
}

func (s silence) isZero() bool { return s.times == 0 }

// failed notes that a query failed. One failure is no news to a watch that knows
// its job; a lost link is none at all, since the host's state says it.
func (w *Watcher) failed(err error) {
	w.mu.Lock()
	if !errors.Is(err, ErrNoAnswer) {
		w.due = time.Now().Add(w.limits.stretch(w.limits.Query))
		w.soon = false
		w.mu.Unlock()
		return
	}
	w.asked, w.soon = time.Now(), false // also where it was not even asked which scheduler it is
	if w.silence.isZero() {
		w.silence.since = time.Now()
	}
	w.silence.times++
	w.silence.words = err.Error()
	now, name := w.silence, "the scheduler"
	if w.sched != nil {
		name = w.sched.name()
	}
	w.mu.Unlock()

	for _, x := range w.open() {
		if now.times > 1 || !x.heardOf() {
			x.tellUnknown("NoAnswer", now.hint(name, x.Job()))
		}
	}
	w.arrange()
}

// hint says since when there is no answer, and what was known before.
func (s silence) hint(scheduler string, last api.Job) string {
	text := fmt.Sprintf("%s has not responded since %s", scheduler, s.since.Format("15:04"))
	if last.Node != "" {
		text += "; the job was last seen on " + last.Node
	}
	return text + "; jobs keep running"
}
