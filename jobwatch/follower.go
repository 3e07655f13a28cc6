package jobwatch

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"
)

// FollowOptions say what a Follower reads.
type FollowOptions struct {
	// Paths are files on the host: ~/ is the home folder, and a name that is no file
	// as it stands is a glob, of whose matches the newest counts. See ExpandLog.
	Paths []string
	// From is where an earlier Follower of the same job stopped.
	From []Position
	// NewerThan leaves out files last written before; they are another job's.
	NewerThan time.Time
	// Enough reports whether what was read so far tells all that is wanted. Where a
	// log is too long to be read whole and its two ends were not enough, the lines
	// in between that look like an address are searched for.
	Enough func() bool
	// Limits default to DefaultLimits.
	Limits Limits
	// Log defaults to nowhere.
	Log *slog.Logger
}

// Chunk is a stretch of a log.
type Chunk struct {
	Path   string
	Source int // which of FollowOptions.Paths
	Offset int64
	// Data is empty when the file has just appeared and holds nothing yet. A chunk
	// that does not continue the one before begins a line.
	Data []byte
	// Reset says that the file was truncated or replaced: what was read of it before
	// no longer counts.
	Reset bool
}

// Position is how far a file has been read. Tail are the bytes just before Offset, by
// which it is known later that the file is still the same one.
type Position struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Tail   []byte `json:"tail,omitempty"`
}

// Follower reads a job's log as it grows, in short commands at a polite pace.
type Follower struct {
	sh      *shell
	limits  Limits
	log     *slog.Logger
	newer   time.Time
	enough  func() bool
	sources []*source
	wake    chan struct{}

	mu      sync.Mutex
	began   time.Time // of the wait for the file
	quick   time.Time // until when to read often
	expect  time.Time // when the job is expected to start
	seen    bool      // a file is there
	settled bool
}

// source is one of the files followed.
type source struct {
	pattern string
	pos     Position // guarded by Follower.mu; written by Serve only
	seen    bool     // of this Follower; Serve's own
}

// NewFollower returns a Follower that reads through r.
func NewFollower(r Runner, o FollowOptions) *Follower {
	limits := o.Limits.orDefault()
	f := &Follower{
		sh:     &shell{run: r, limit: limits.Command},
		limits: limits,
		log:    orDiscard(o.Log),
		newer:  o.NewerThan,
		enough: o.Enough,
		wake:   make(chan struct{}, 1),
	}
	for i, p := range o.Paths {
		s := &source{pattern: p}
		if i < len(o.From) {
			s.pos = o.From[i]
		}
		f.sources = append(f.sources, s)
	}
	return f
}

// Serve reads until ctx is over, and hands each new stretch to sink.
func (f *Follower) Serve(ctx context.Context, sink func(Chunk)) error {
	f.mu.Lock()
	f.began = time.Now()
	f.mu.Unlock()
	stop := f.watchFolders()
	defer stop()
	for {
		if err := f.read(ctx, sink); err != nil && ctx.Err() == nil {
			f.log.Debug("cannot read the log", "err", err)
		}
		if err := f.pause(ctx); err != nil {
			return err
		}
	}
}

// Nudge says that the job started, the link is back, or a person asked: for a while,
// the log is read often.
func (f *Follower) Nudge() {
	f.mu.Lock()
	f.quick = time.Now().Add(f.limits.LogFirstFor)
	f.mu.Unlock()
	signal(f.wake)
}

// Settled says that the job serves: from now on the log is read seldom.
func (f *Follower) Settled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled, f.quick = true, time.Time{}
}

// Expect says when the job is expected to start, so that its log is looked for more
// often around then.
func (f *Follower) Expect(start time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expect = start
}

// Position returns how far each path has been read, to go on from later.
func (f *Follower) Position() []Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Position, len(f.sources))
	for i, s := range f.sources {
		list[i] = s.pos
		list[i].Tail = bytes.Clone(s.pos.Tail)
	}
	return list
}

func (f *Follower) pause(ctx context.Context) error {
	timer := time.NewTimer(f.limits.stretch(f.interval()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.wake:
	case <-timer.C:
	}
	return nil
}

// interval is how long to wait before the next read.
func (f *Follower) interval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch l := f.limits; {
	case time.Now().Before(f.quick):
		return l.LogFirst
	case f.seen && f.settled:
		return l.LogSettled
	case f.seen:
		return l.LogStarting
	default:
		return l.statWait(time.Since(f.began), f.expect)
	}
}

// appeared notes that there is a file, which is the job's start.
func (f *Follower) appeared() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.seen {
		f.seen = true
		if !f.settled {
			f.quick = time.Now().Add(f.limits.LogFirstFor)
		}
	}
}

// moved sets how far s has been read.
func (f *Follower) moved(s *source, pos Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.pos = pos
}
