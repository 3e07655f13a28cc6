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
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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
	for i := range chunkWorkers {
		workers.Go(func() { c.copyChunks(ctx, i%lanes) })
	}
	if c.openLanes { // listing a folder costs more than a small file
		c.findParts(ctx, dir, jobs)
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

// nextLane spreads small files over the channels, from the first one on, which is open.
func (c *copier) nextLane() int { return int(c.lane.Add(1)-1) % lanes }

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

// Place is one end of a copy: this computer, or a host.
type Place interface {
	// use calls f with the place's files over one of its connections, and calls it again
	// over a new one when that was lost.
	use(ctx context.Context, lane int, f func(files) error) error
	// write is use, with files that can be written. Nothing else writes.
	write(ctx context.Context, lane int, f func(writable) error) error
	// writeBelow is called before the first write: all are below one folder. The caller
	// calls done at the end.
	writeBelow(dir string) (done func() error, err error)
	join(dir, name string) string
	split(path string) (dir, base string)
}

// lanes is how many channels of a host's connection a copy uses.
const lanes = 4

// openable are files whose names are known.
type openable interface {
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Open(name string) (handle, error)
}

// files are the files of a place over one connection.
type files interface {
	openable
	// ReadDirContext returns with an error what it has listed so far.
	ReadDirContext(ctx context.Context, name string) ([]fs.FileInfo, error)
	Glob(pattern string) ([]string, error)
	ReadLink(name string) (string, error)
	// RealPath is the absolute path of a file, without links.
	RealPath(name string) (string, error)
}

// writable are the files of a target, whose names are known.
type writable interface {
	openable
	Symlink(target, name string) error
	// Mkdir creates a folder for its owner alone. It removes the permissions of an
	// existing one that mode does not have.
	Mkdir(name string, mode fs.FileMode) (existed bool, err error)
	// Create creates a file for its owner alone. It removes what has the name: another
	// user of a shared folder may have put a link there, which must not be followed.
	Create(name string) (handle, error)
	// Reopen opens a file that Create has created, for writing.
	Reopen(name string) (handle, error)
	// Replace renames a file, also to a name that exists.
	Replace(name, other string) error
	Remove(name string) error
	Chmod(name string, mode fs.FileMode) error
	Chtimes(name string, accessed, modified time.Time) error
	// Full reports whether the file system of a file is full, as far as it can be known.
	Full(name string) bool
}

// handle is an open file.
type handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// createNew creates a file under a name that nothing has; what had it is removed.
func createNew[F any](create func() (F, error), remove func() error) (F, error) {
	f, err := create()
	if err == nil || isLost(err) {
		return f, err
	}
	switch e := remove(); { // for a name that exists, servers only report "failure"
	case errors.Is(e, fs.ErrNotExist):
		return f, err
	case e != nil:
		return f, e
	}
	return create()
}

// copyAny starts to copy a file, a folder or a link.
func (c *copier) copyAny(ctx context.Context, j job) {
	switch mode := j.info.Mode(); {
	case ctx.Err() != nil:
		c.fail(j.from, ctx.Err())
	case j.info.Size() < 0:
		c.fail(j.from, fmt.Errorf("the host reports an invalid size of %d", j.info.Size()))
	case mode.IsDir():
		c.copyFolder(ctx, j)
	case mode.IsRegular() && j.info.Size() <= smallFile:
		c.start(ctx, c.small, j, c.copySmall)
	case mode.IsRegular():
		c.start(ctx, c.large, j, c.copyLarge)
	case mode&fs.ModeSymlink != 0:
		c.start(ctx, c.small, j, c.copyLink)
	default:
		c.Warn("%q is not a file, folder or link: skipped", j.from)
	}
}

// start copies one file in a goroutine, when the limit allows it.
func (c *copier) start(ctx context.Context, limit chan struct{}, j job, copyOne func(context.Context, job) error) {
	c.Progress.total.Add(j.info.Size())
	c.Progress.filesTotal.Add(1)
	select {
	case limit <- struct{}{}:
	case <-ctx.Done():
		c.fail(j.from, ctx.Err())
		return
	}
	c.work.Go(func() {
		defer func() { <-limit }()
		err := copyOne(ctx, j)
		if err == nil {
			c.Progress.files.Add(1)
		}
		c.fail(j.from, err)
	})
}

// copyFolder copies a folder's entries, in a goroutine unless many folders are being
// listed.
func (c *copier) copyFolder(ctx context.Context, j job) {
	c.Progress.listing.Add(1)
	select {
	case c.lists <- struct{}{}:
		c.work.Go(func() {
			defer func() { <-c.lists }()
			c.copyEntries(ctx, j)
		})
	default:
		c.copyEntries(ctx, j)
	}
}

func (c *copier) copyEntries(ctx context.Context, j job) {
	defer c.Progress.listing.Add(-1)
	var entries []fs.FileInfo
	made, existed := false, false
	err := c.with(ctx, c.nextLane(), func(from files, to writable) (err error) {
		if existed, err = to.Mkdir(j.to, j.info.Mode()); err != nil {
			return err
		}
		made = true
		entries, err = from.ReadDirContext(ctx, j.from)
		return err
	})
	c.fail(j.from, err)
	if !made {
		return
	}
	c.mu.Lock()
	c.folders = append(c.folders, j)
	c.mu.Unlock()
	seen := make(map[string]bool, len(entries))
	var jobs []job
	for _, e := range entries {
		switch name := e.Name(); {
		case isPart(name):
		case !c.isName(name):
			c.Warn("%q in %q is not a valid file name: skipped", name, j.from)
		case seen[name]:
			c.Warn("%q is listed twice in %q: the second one is skipped", name, j.from)
		default:
			seen[name] = true
			jobs = append(jobs, job{from: c.From.join(j.from, name), to: c.To.join(j.to, name), info: e})
		}
	}
	if existed {
		c.findParts(ctx, j.to, jobs)
	}
	for _, entry := range jobs {
		c.copyAny(ctx, entry)
	}
}

// isName reports whether a listed name is a file name for the target, not a path to
// somewhere else.
func (c *copier) isName(name string) bool {
	_, base := c.To.split(c.To.join("folder", name))
	return base == name
}

// finishFolders gives folders their modes and times, the innermost first.
func (c *copier) finishFolders(ctx context.Context) {
	for _, f := range slices.Backward(c.folders) {
		err := c.To.write(ctx, 0, func(to writable) error {
			return errors.Join(to.Chtimes(f.to, f.info.ModTime(), f.info.ModTime()), to.Chmod(f.to, f.info.Mode().Perm()))
		})
		if err != nil {
			c.Warn("%q: could not set mode and times: %v", f.to, err)
		}
	}
}

// copyLink copies a link as a link. It replaces another link or a file, but never a
// folder: files that are copied into that would follow the link.
func (c *copier) copyLink(ctx context.Context, j job) error {
	return c.with(ctx, c.nextLane(), func(from files, to writable) error {
		target, err := from.ReadLink(j.from)
		if err != nil {
			return err
		}
		_, err = createNew(
			func() (any, error) { return nil, to.Symlink(target, j.to) },
			func() error {
				if there, err := to.Lstat(j.to); err != nil || there.IsDir() {
					return cmp.Or(err, errors.New("the target already has a folder of this name"))
				}
				return to.Remove(j.to)
			},
		)
		return err
	})
}
