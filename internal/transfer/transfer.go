// Package transfer copies files and folders between this computer and hosts, or
// between two hosts, over SFTP.
//
// It is made for long distances: it copies many small files at once, and a large one in
// chunks over several channels of the host's connection, since the window of a channel
// allows only 2 MiB for each round trip. A file gets its name when it is complete; until
// then it is a hidden part in the same folder. Each copy has parts of its own; a later one
// takes over the part of one that died, and continues with it.
// Copies wait for a lost connection. The caller connects to the host's file server; see
// [Dial].
package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
)

// Options are the options of Copy.
type Options struct {
	From    Place
	Sources []string // paths, or patterns of them
	To      Place
	Target  string // a folder to copy into, or the new name of the only source
	// Resume continues what an earlier copy left unfinished, and skips what it finished.
	Resume   bool
	Progress *Progress
	// Warn reports problems that do not stop the copy.
	Warn func(format string, args ...any)
}

const (
	smallFile  = 256 << 10 // up to this size a file is copied in one piece
	smallFiles = 128       // at once; each takes six round trips and few bytes
	largeFiles = 6         // larger ones, at once
	listings   = 8         // folders, listed at once
)

// Copy copies. The failure of one file does not stop the others; it returns all of them.
func Copy(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &copier{
		Options: o, stop: cancel, id: rand.Text(),
		small:  make(chan struct{}, smallFiles),
		large:  make(chan struct{}, largeFiles),
		lists:  make(chan struct{}, listings),
		chunks: make(chan chunk),
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	jobs, dir, err := c.resolve(ctx)
	if err != nil {
		return err
	}
	done, err := o.To.writeBelow(dir)
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	if err := c.checkNesting(ctx, jobs, dir); err != nil {
		return err
	}
	// A large file needs every lane: open them while the first one lists.
	c.openLanes = slices.ContainsFunc(jobs, func(j job) bool { return j.info.Mode().IsRegular() && j.info.Size() > smallFile })
	if c.openLanes { // listing a folder costs more than a small file
		c.findParts(ctx, dir, jobs)
	}
	for i := range chunkWorkers {
		workers.Go(func() { c.copyChunks(ctx, i%lanes) })
	}
	c.Progress.listing.Add(1)
	for _, j := range jobs {
		c.copyAny(ctx, j)
	}
	c.Progress.listing.Add(-1)
	c.work.Wait()
	close(c.chunks)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.finishFolders(ctx)
	return c.failure()
}

// copier is the state of one Copy.
type copier struct {
	Options
	stop                context.CancelCauseFunc
	id                  string        // in the names of its parts: no other copy uses these
	small, large, lists chan struct{} // limits for what is done at once
	chunks              chan chunk
	openLanes           bool
	work                sync.WaitGroup
	lane                atomic.Uint32

	mu     sync.Mutex
	failed []error
	// folders are those that were created. Their modes and times are set last: files that are
	// written into them need the one and change the other.
	folders []job
}

// job is one file or folder to copy.
type job struct {
	from, to string
	info     fs.FileInfo
	parts    []string // in its folder of the target, of other copies
	// unreadable says why a match of a pattern cannot be copied.
	unreadable error
}

// maxShown is how many failures are listed.
const maxShown = 20

// fail records a file's failure. If a host cannot be reached at all, it stops the copy.
func (c *copier) fail(path string, err error) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*connectError](err); ok {
		c.stop(e.error)
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
func (c *copier) nextLane() int { return int(c.lane.Add(1)) % lanes }

// with calls f with both ends of a copy, and calls it again with new connections when
// one was lost.
func (c *copier) with(ctx context.Context, lane int, f func(from files, to writable) error) error {
	return c.From.use(ctx, lane, func(from files) error {
		return c.To.write(ctx, lane, func(to writable) error { return f(from, to) })
	})
}

// Progress counts during a copy. The totals grow until all folders are listed.
type Progress struct {
	copied, skipped, total atomic.Int64
	files, filesTotal      atomic.Int64
	listing                atomic.Int64 // folders yet to be listed
}

// Counts are the values of a Progress.
type Counts struct {
	Copied  int64 // bytes that were transferred
	Skipped int64 // bytes that the target already had
	Total   int64 // bytes in all
	Files   int64 // files that are in place
	Of      int64 // files in all
	Listed  bool  // the totals are final
}

// Counts returns the current values.
func (p *Progress) Counts() Counts {
	return Counts{
		Copied: p.copied.Load(), Skipped: p.skipped.Load(), Total: p.total.Load(),
		Files: p.files.Load(), Of: p.filesTotal.Load(), Listed: p.listing.Load() == 0,
	}
}
