package usage

import (
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
)

// kept is how long what a job used is kept, and spacing how far apart at least
// the samples are that are kept.
const (
	kept    = time.Hour
	spacing = 20 * time.Second
)

// samples is what a session's job used in the last hour.
type samples struct {
	mu   sync.Mutex
	list []api.Usage
}

// add keeps a sample. It replaces the last one if that is too close to the one before.
func (l *samples) add(u api.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.list); n > 1 && l.list[n-1].Time.Sub(l.list[n-2].Time) < spacing {
		l.list = l.list[:n-1]
	}
	l.list = append(l.list, u)
	l.list = slices.DeleteFunc(l.list, func(x api.Usage) bool { return u.Time.Sub(x.Time) >= kept })
}

func (l *samples) all() []api.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *samples) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}
