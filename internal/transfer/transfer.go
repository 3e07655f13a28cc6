// Package transfer copies files and folders between this computer and hosts, or
// between two hosts, over SFTP.
//
// It is made for long ways: many small files are in flight at once, and a large one
// travels in chunks over several channels of the host's one connection, since a
// channel's window alone allows 2 MiB a round trip. A file gets its name when it is
// whole; until then it is a hidden part beside it, from which a later copy may go on.
// A lost connection is waited for. How a host's file server is reached is the
// caller's affair; see [Dial].
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
)

// Options say what is copied where.
type Options struct {
	From    Place
	Sources []string // paths, or patterns of them
	To      Place
	Target  string // a folder to copy into, or the new name of the only source
	// Resume goes on with what an earlier copy left unfinished, and skips what it
	// finished.
	Resume   bool
	Progress *Progress
	// Warn is told what is wrong but stops nothing.
	Warn func(format string, args ...any)
}

const (
	smallFile  = 256 << 10 // up to here a file is copied in one go
	smallFiles = 128       // so many at once; each takes six round trips and hardly any bytes
	largeFiles = 6         // larger ones at once
	listings   = 8         // folders that are listed at once
)

// Copy copies. One file's failure does not stop the others; all are returned.
func Copy(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &copier{
		Options: o, stop: cancel,
		small:  make(chan struct{}, smallFiles),
		large:  make(chan struct{}, largeFiles),
		lists:  make(chan struct{}, listings),
		chunks: make(chan chunk),
		pace:   pacesOf(o.From, o.To),
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	watching, done := context.WithCancel(ctx)
	defer done()
	for _, p := range c.pace {
		workers.Go(func() { p.watch(watching) }) // from now on, while the link is still empty
	}
	jobs, dir, err := c.resolve(ctx)
	if err != nil {
		return err
	}
	dst, release, err := o.To.below(dir)
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	c.dst = dst
	// A large file will need every lane: they are opened while the first looks around.
	c.eager = slices.ContainsFunc(jobs, func(j job) bool { return j.info.Mode().IsRegular() && j.info.Size() > smallFile })
	for i := range chunkWorkers {
		workers.Go(func() { c.carryChunks(ctx, i%lanes) })
	}
	c.Progress.listing.Add(1)
	for _, j := range jobs {
		c.copyAny(ctx, j)
	}
	c.Progress.listing.Add(-1)
	c.work.Wait()
	close(c.chunks)
	done()
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.finishFolders(ctx)
	return c.failure()
}

// copier is one Copy under way.
type copier struct {
	Options
	dst                 target
	stop                context.CancelCauseFunc
	small, large, lists chan struct{} // what may be under way at once
	chunks              chan chunk
	pace                paces
	eager               bool
	work                sync.WaitGroup
	next                sync.Mutex
	lane                int

	mu      sync.Mutex
	failed  []error
	folders []folder
}

// job is one file or folder to copy.
type job struct {
	from, to string
	info     fs.FileInfo
}

// maxShown is how many failures are told one by one.
const maxShown = 20

// fail takes note of a file's failure. Where a host cannot be reached at all, no other
// file has a chance.
func (c *copier) fail(path string, err error) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*connectError](err); ok {
		c.stop(e.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, fmt.Errorf("%q: %w", path, err))
}

func (c *copier) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed) > maxShown {
		return fmt.Errorf("%w\nand %d more", errors.Join(c.failed[:maxShown]...), len(c.failed)-maxShown)
	}
	return errors.Join(c.failed...)
}

// nextLane spreads small files over the channels.
func (c *copier) nextLane() int {
	c.next.Lock()
	defer c.next.Unlock()
	c.lane++
	return c.lane % lanes
}

// with calls f with both ends of a copy. What f does it must be able to do again: it
// is called again on new connections when one was lost.
func (c *copier) with(ctx context.Context, lane int, f func(from files, to writable) error) error {
	return c.From.use(ctx, lane, func(from files) error {
		return c.dst.write(ctx, lane, func(to writable) error { return f(from, to) })
	})
}

// Progress counts while a copy is under way. The totals grow until all folders are
// listed.
type Progress struct {
	copied, skipped, total atomic.Int64
	files, filesTotal      atomic.Int64
	listing                atomic.Int64 // folders yet to be listed
}

// Counts are what a Progress stands at.
type Counts struct {
	Copied  int64 // bytes that travelled
	Skipped int64 // bytes that were there already
	Total   int64 // bytes in all
	Files   int64 // files that are in place
	Of      int64 // files in all
	Listed  bool  // the totals are final
}

// Counts returns what it stands at.
func (p *Progress) Counts() Counts {
	return Counts{
		Copied: p.copied.Load(), Skipped: p.skipped.Load(), Total: p.total.Load(),
		Files: p.files.Load(), Of: p.filesTotal.Load(), Listed: p.listing.Load() == 0,
	}
}
