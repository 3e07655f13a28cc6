package node

import (
	"sync"
	"time"
)

// Learned is what nodes of one host have shown about it. It is for the next nodes of that
// host, and may be used by several at once.
type Learned struct {
	onto lastWorking[string] // the route onto a node
	into lastWorking[string] // the route into a job on a node
	srun lastWorking[srunOptions]
}

// learnedFor is how long what worked for one node comes first for others. It ends because
// a cheaper route may work meanwhile, for example with a newly registered key.
const learnedFor = time.Hour

// lastWorking is what last worked for a node of a host.
type lastWorking[T comparable] struct {
	mu    sync.Mutex
	what  T
	until time.Time
}

// get is zero if it is too long ago.
func (l *lastWorking[T]) get() (what T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		what = l.what
	}
	return what
}

func (l *lastWorking[T]) set(what T) {
	if l.get() == what {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.what, l.until = what, time.Now().Add(learnedFor)
}
