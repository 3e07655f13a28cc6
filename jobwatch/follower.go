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

const (
	bite     = 512 << 10 // the most that is read of a file at once
	backlog  = 4 << 20   // more than this unread, and the middle is left out
	tailSize = 64        // how many bytes tell whether a file is still the same
)

// read reads what is new in every file.
func (f *Follower) read(ctx context.Context, sink func(Chunk)) error {
	asks := make([]ask, len(f.sources))
	for i, s := range f.sources {
		asks[i] = ask{pattern: s.pattern, pos: s.pos, max: bite, newer: f.newer}
	}
	got, err := readFiles(ctx, f.sh, asks)
	if err != nil {
		return err
	}
	for i, g := range got {
		named := func(c Chunk) {
			c.Source = i
			sink(c)
		}
		if err := f.take(ctx, named, f.sources[i], g); err != nil {
			return err
		}
	}
	return nil
}

// take passes on what was read of one file, and reads on until it is up to date.
func (f *Follower) take(ctx context.Context, sink func(Chunk), s *source, g got) (err error) {
	for g.found {
		f.appeared()
		chunk := s.fresh(g)
		if chunk.Reset && g.start > 0 {
			// Other bytes stand where we stopped: another file under the same name.
			if g, err = f.again(ctx, s, Position{}); err != nil {
				return err
			}
			continue
		}
		end := chunk.Offset + int64(len(chunk.Data))
		if g.size-end > backlog {
			return f.leap(ctx, sink, s, chunk, g.size)
		}
		if chunk.Reset || len(chunk.Data) > 0 || !s.seen {
			sink(chunk)
		}
		s.seen = true
		f.moved(s, advance(s.pos, chunk))
		if g.size <= end || len(chunk.Data) == 0 {
			return nil
		}
		if g, err = f.again(ctx, s, s.pos); err != nil {
			return err
		}
	}
	return nil
}

// fresh is the part of g that was not read before: all of it, as a reset, when the
// file is not the one that was read before.
func (s *source) fresh(g got) Chunk {
	all := Chunk{Path: g.path, Offset: g.start, Data: g.data, Reset: s.pos.Path != ""}
	if s.pos.Path == "" || g.path != s.pos.Path || g.start == 0 && s.pos.Offset > int64(len(s.pos.Tail)) {
		return all
	}
	rest, same := bytes.CutPrefix(g.data, s.pos.Tail)
	if !same {
		return all
	}
	return Chunk{Path: g.path, Offset: s.pos.Offset, Data: rest}
}

// advance is the position after c.
func advance(pos Position, c Chunk) Position {
	tail := c.Data
	if !c.Reset && pos.Path == c.Path && pos.Offset == c.Offset {
		tail = append(bytes.Clone(pos.Tail), c.Data...)
	}
	if len(tail) > tailSize {
		tail = tail[len(tail)-tailSize:]
	}
	return Position{Path: c.Path, Offset: c.Offset + int64(len(c.Data)), Tail: bytes.Clone(tail)}
}

// again reads more of the file that s is at.
func (f *Follower) again(ctx context.Context, s *source, from Position) (got, error) {
	list, err := readFiles(ctx, f.sh, []ask{{pattern: s.pattern, pos: from, max: bite, newer: f.newer}})
	if err != nil {
		return got{}, err
	}
	return list[0], nil
}

// leap passes on the beginning of a long unread stretch and its end, and searches
// the middle if both together tell too little.
func (f *Follower) leap(ctx context.Context, sink func(Chunk), s *source, head Chunk, size int64) error {
	if cut := bytes.LastIndexByte(head.Data, '\n'); cut >= 0 {
		head.Data = head.Data[:cut+1]
	}
	end, err := readFiles(ctx, f.sh, []ask{{pattern: s.pattern, pos: Position{Path: head.Path, Offset: size - bite}, max: bite, newer: f.newer}})
	if err != nil {
		return err
	}
	tail := end[0]
	if !tail.found || tail.path != head.Path || tail.start != size-bite {
		// It changed under our hands: the next round sees what it is now.
		return nil
	}
	sink(head)
	s.seen = true
	rest := Chunk{Path: tail.path, Offset: tail.start, Data: tail.data}
	if cut := bytes.IndexByte(rest.Data, '\n'); cut >= 0 {
		rest.Offset, rest.Data = rest.Offset+int64(cut)+1, rest.Data[cut+1:]
	}
	sink(rest)
	f.moved(s, advance(Position{}, rest))
	if f.enough == nil || f.enough() {
		return nil
	}
	from := head.Offset + int64(len(head.Data))
	return searchFile(ctx, f.sh, head.Path, from, rest.Offset-from, sink)
}
