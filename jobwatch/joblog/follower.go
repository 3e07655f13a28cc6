package joblog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/remote"
)

// FollowOptions say what a Follower reads.
type FollowOptions struct {
	// Paths are files on the host: ~/ is the home folder, and a name that is not a file is
	// a glob, of which the newest match is read. See ExpandLog.
	Paths []string
	// From is the Position of an earlier Follower of the same job.
	From []Position
	// NewerThan excludes files last written before: they belong to another job.
	NewerThan time.Time
	// JobID is the job whose files these are. The clock of a file server may differ much from
	// that of a scheduler, so a file with the job's number in its name may seem a day older.
	JobID string
	// Enough reports whether nothing more needs to be read. If a log is too long to be read
	// completely and its two ends are not enough, the middle is searched for lines that look
	// like an address.
	Enough func() bool
	// Whole: no log is too long to be read completely.
	Whole bool
	// Limits default to DefaultLimits.
	Limits remote.Limits
	// Log defaults to nowhere.
	Log *slog.Logger
}

// Chunk is a part of a log.
type Chunk struct {
	Path   string
	Source int // which of FollowOptions.Paths
	Offset int64
	// Data is empty if the file has just appeared and is empty. A chunk that does not
	// continue the previous one begins a line.
	Data []byte
	// Reset says that the file was truncated or replaced: earlier chunks no longer count.
	Reset bool
}

// Position is how far a file has been read. Tail are the bytes just before Offset, which
// show later whether the file is still the same.
type Position struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Tail   []byte `json:"tail,omitempty"`
}

// Follower reads a job's log as it grows, by short commands at the pace of Limits.
type Follower struct {
	options FollowOptions
	sh      *remote.Shell
	batch   *readBatch // shared with other Followers; nil: none, or it failed for one of them
	sources []*source
	wake    chan struct{}

	mu      sync.Mutex
	began   time.Time // when the wait for the file began
	often   time.Time // since when to read often
	expect  time.Time // when the job is expected to start
	seen    bool      // a file exists
	settled bool
	ended   bool
}

// source is one of the files followed.
type source struct {
	number  int // among the paths
	pattern string
	newer   time.Time
	pos     Position // guarded by Follower.mu; written by Serve only
	seen    bool     // by this Follower; used by Serve only
}

// NewFollower returns a Follower that reads through r.
func NewFollower(r remote.Runner, o FollowOptions) *Follower {
	o.Limits = cmp.Or(o.Limits, remote.DefaultLimits())
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	f := &Follower{options: o, sh: &remote.Shell{Runner: r, Limit: o.Limits.Command}, wake: make(chan struct{}, 1)}
	for i, p := range o.Paths {
		s := &source{number: i, pattern: p, newer: o.NewerThan}
		if !s.newer.IsZero() && NamesJob(p, o.JobID) {
			s.newer = s.newer.Add(-24 * time.Hour)
		}
		if i < len(o.From) {
			s.pos = o.From[i]
		}
		f.sources = append(f.sources, s)
	}
	return f
}

// Serve reads until ctx ends, or once more after Finish, and passes each new chunk to sink.
func (f *Follower) Serve(ctx context.Context, sink func(Chunk)) error {
	f.mu.Lock()
	f.began = time.Now()
	f.mu.Unlock()
	stop := f.watchFolders()
	defer stop()
	for {
		f.mu.Lock()
		last := f.ended
		f.mu.Unlock()
		err := f.read(ctx, sink)
		if err != nil && ctx.Err() == nil {
			f.options.Log.Debug("cannot read the log", "err", err)
		}
		if last && err == nil {
			return nil
		}
		if !ctxtime.SleepUntil(ctx, time.Now().Add(f.options.Limits.WithJitter(f.interval())), f.wake) {
			return ctx.Err()
		}
	}
}

// ReadOften makes the Follower read often for a while: the job started, the connection is back,
// or the user acted.
func (f *Follower) ReadOften() {
	f.mu.Lock()
	f.often = time.Now()
	f.mu.Unlock()
	latest.Signal(f.wake) // ends the wait for the next read, now or later
}

// Settled says that the job serves: from now on the log is read rarely.
func (f *Follower) Settled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled, f.often = true, time.Time{}
}

// Finish says that the job has ended: what it has written is read once more.
func (f *Follower) Finish() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	latest.Signal(f.wake)
}

// Expect says when the job is expected to start. Its log is checked more often around then.
func (f *Follower) Expect(start time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expect = start
}

// Position returns how far each path has been read, for FollowOptions.From.
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

// interval is how long to wait before the next read.
func (f *Follower) interval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch since, l := time.Since(f.often), f.options.Limits; {
	case !f.seen && since >= l.LogFirstFor:
		return l.StatInterval(time.Since(f.began), f.expect)
	case f.settled && since >= l.LogEarlyFor:
		return l.LogSettled
	default:
		return l.LogInterval(since)
	}
}

// fileAppeared records that a file exists, which means that the job started.
func (f *Follower) fileAppeared() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.seen {
		f.seen = true
		if !f.settled {
			f.often = time.Now()
		}
	}
}

// setPosition sets how far s has been read.
func (f *Follower) setPosition(s *source, pos Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.pos = pos
}

const (
	maxRead   = 512 << 10 // read from a file at once
	maxUnread = 4 << 20   // above this, the middle of the unread part is skipped
	tailSize  = 64        // bytes that identify a file
)

// read reads what is new in every file.
func (f *Follower) read(ctx context.Context, sink func(Chunk)) error {
	requests := make([]fileRequest, len(f.sources))
	for i, s := range f.sources {
		requests[i] = s.request(s.pos)
	}
	contents, err := f.readAll(ctx, requests)
	if err != nil {
		return err
	}
	for i, g := range contents {
		if err := f.deliver(ctx, sink, f.sources[i], g); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads together with other Followers, until a command hangs: the file system of one
// log must not keep the others from being read.
func (f *Follower) readAll(ctx context.Context, requests []fileRequest) ([]fileContent, error) {
	if f.batch == nil {
		return readFiles(ctx, f.sh, requests)
	}
	contents, err := f.batch.read(ctx, requests)
	if errors.Is(err, remote.ErrNoAnswer) {
		f.batch = nil
	}
	return contents, err
}

// deliver passes on the new part of one file, and reads more until it is up to date.
func (f *Follower) deliver(ctx context.Context, sink func(Chunk), s *source, g fileContent) (err error) {
	for g.found {
		f.fileAppeared()
		chunk := s.unread(g)
		if chunk.Reset && g.start > 0 {
			// The bytes before our offset differ: it is another file with the same name.
			if g, err = readOne(ctx, f.sh, s.request(Position{})); err != nil {
				return err
			}
			continue
		}
		end := chunk.Offset + int64(len(chunk.Data))
		if g.size-end > maxUnread && !f.options.Whole {
			return f.skipMiddle(ctx, sink, s, chunk, g.size)
		}
		if chunk.Reset || len(chunk.Data) > 0 || !s.seen {
			sink(chunk)
		}
		s.seen = true
		f.setPosition(s, advance(s.pos, chunk))
		if g.size <= end || len(chunk.Data) == 0 {
			return nil
		}
		if g, err = readOne(ctx, f.sh, s.request(s.pos)); err != nil {
			return err
		}
	}
	return nil
}

// unread is the part of g that was not read before. If the file is not the same as
// before, that is all of it, with Reset.
func (s *source) unread(g fileContent) Chunk {
	all := Chunk{Path: g.path, Source: s.number, Offset: g.start, Data: g.data, Reset: s.pos.Path != ""}
	if s.pos.Path == "" || g.path != s.pos.Path || g.start == 0 && s.pos.Offset > int64(len(s.pos.Tail)) {
		return all
	}
	rest, same := bytes.CutPrefix(g.data, s.pos.Tail)
	if !same {
		return all
	}
	return Chunk{Path: g.path, Source: s.number, Offset: s.pos.Offset, Data: rest}
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

// request is for the file from a position on.
func (s *source) request(from Position) fileRequest {
	return fileRequest{pattern: s.pattern, pos: from, max: maxRead, newer: s.newer}
}

// skipMiddle passes on the beginning and the end of a long unread part, and searches the
// middle if these are not enough.
func (f *Follower) skipMiddle(ctx context.Context, sink func(Chunk), s *source, head Chunk, size int64) error {
	if cut := bytes.LastIndexByte(head.Data, '\n'); cut >= 0 {
		head.Data = head.Data[:cut+1]
	}
	tail, err := readOne(ctx, f.sh, s.request(Position{Path: head.Path, Offset: size - maxRead}))
	if err != nil {
		return err
	}
	if !tail.found || tail.path != head.Path || tail.start != size-maxRead {
		// It changed meanwhile: the next round reads it again.
		return nil
	}
	sink(head)
	s.seen = true
	rest := Chunk{Path: tail.path, Source: s.number, Offset: tail.start, Data: tail.data}
	if cut := bytes.IndexByte(rest.Data, '\n'); cut >= 0 {
		rest.Offset, rest.Data = rest.Offset+int64(cut)+1, rest.Data[cut+1:]
	}
	sink(rest)
	f.setPosition(s, advance(Position{}, rest))
	if enough := f.options.Enough; enough == nil || enough() {
		return nil
	}
	from := head.Offset + int64(len(head.Data))
	return searchFile(ctx, f.sh, head.Path, from, rest.Offset-from, sink)
}

// Feed returns a function that passes the chunks of a job's logs to d. A chunk that
// does not continue the one before begins a stream of its own, so that no two half
// lines become one.
func Feed(d *detect.Detector) func(Chunk) {
	type file struct {
		streams []*detect.Stream // the last one continues at next
		next    int64
	}
	files := map[int]*file{} // by their place among the paths followed
	return func(c Chunk) {
		f := files[c.Source]
		if f == nil {
			f = &file{}
			files[c.Source] = f
		}
		switch {
		case c.Reset: // truncated or replaced; what was read from the other files stays
			for _, s := range f.streams {
				s.Reset()
			}
			f.streams = []*detect.Stream{d.Stream(c.Path)}
		case len(f.streams) == 0 || c.Offset != f.next:
			name := c.Path
			if c.Offset > 0 {
				name = fmt.Sprintf("%s from byte %d", c.Path, c.Offset)
			}
			f.streams = append(f.streams, d.Stream(name))
		}
		_, _ = f.streams[len(f.streams)-1].Write(c.Data)
		f.next = c.Offset + int64(len(c.Data))
	}
}

// burstTime is how long to collect changes of a file before reading it.
const burstTime = 250 * time.Millisecond

// watchFolders makes the file system wake the Follower, if the files are on this computer.
func (f *Follower) watchFolders() (stop func()) {
	if _, here := f.sh.Runner.(remote.Local); !here {
		return func() {}
	}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		f.options.Log.Debug("the file system reports no changes", "err", err)
		return func() {}
	}
	for _, s := range f.sources {
		if err := events.Add(folderOf(s.pattern)); err != nil {
			f.options.Log.Debug("the file system reports no changes", "path", s.pattern, "err", err)
		}
	}
	var done sync.WaitGroup
	done.Go(func() { f.wakeOnChange(events) })
	return func() {
		_ = events.Close()
		done.Wait()
	}
}

// wakeOnChange wakes the Follower shortly after each burst of changes, until events is
// closed.
func (f *Follower) wakeOnChange(events *fsnotify.Watcher) {
	var burst <-chan time.Time
	for {
		select {
		case _, open := <-events.Events:
			if !open {
				return
			}
			if burst == nil {
				burst = time.After(burstTime)
			}
		case _, open := <-events.Errors: // an overflow: polling finds what was missed
			if !open {
				return
			}
		case <-burst:
			burst = nil
			latest.Signal(f.wake)
		}
	}
}

// folderOf is the folder in which a file will appear: that of the pattern before its first
// wildcard.
func folderOf(pattern string) string {
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			pattern = filepath.Join(home, rest)
		}
	}
	if i := strings.IndexAny(pattern, globSpecial); i >= 0 {
		pattern = pattern[:i] + "x"
	}
	return filepath.Dir(pattern)
}
