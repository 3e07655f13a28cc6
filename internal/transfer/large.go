package transfer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
)

const (
	chunkSize = 1 << 20
	// chunkWorkers keep twice the window of a channel in flight on each lane.
	chunkWorkers = 4 * lanes
	// writeWindow is how far after the first missing byte a large file is written. A
	// part is complete up to that much before its end, however the copy ended.
	writeWindow = 32 * chunkSize
)

// chunk is a range of a large file.
type chunk struct {
	file *largeFile
	off  int64
	n    int
	done chan error // gets one, also nil
}

// largeFile is a file that is copied in chunks.
type largeFile struct {
	job
	part string

	open sync.Map // of functions that open a file once, by opened
}

// copyLarge copies a file in chunks, on all lanes at once.
func (c *copier) copyLarge(ctx context.Context, j job) error {
	f := &largeFile{job: j, part: c.partOf(j)}
	defer func() { _ = f.close() }()
	start, done, err := c.begin(ctx, f)
	if err != nil || done {
		return err
	}
	c.Progress.skipped.Add(start)
	err = c.copyFrom(ctx, f, start)
	if errors.Is(err, errShrank) { // a later copy cannot continue it
		_ = c.To.write(ctx, 0, func(to writable) error { return to.Remove(f.part) })
	}
	if err != nil {
		return err
	}
	return c.finish(ctx, f)
}

// begin finds the start: where an earlier copy stopped, or 0. Done says that the file
// is already complete.
func (c *copier) begin(ctx context.Context, f *largeFile) (start int64, done bool, err error) {
	if err := c.clearParts(ctx, f.job, f.part); err != nil {
		return 0, false, err
	}
	err = c.with(ctx, c.nextLane(), func(from files, to writable) error {
		_ = f.close() // what was opened before a connection was lost
		start, done = 0, false
		there, err := to.Lstat(f.part)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if c.Resume && c.finished(from, to, f.job) {
				c.Progress.skipped.Add(f.info.Size())
				done = true
				return nil
			}
		case err != nil:
			return err
		case c.Resume && there.Mode().IsRegular() && there.Size() <= f.info.Size():
			start = max(0, there.Size()-writeWindow)
			start -= start % chunkSize
			if start > 0 && sameTail(from, to, f.from, f.part, start) {
				return to.Chmod(f.part, 0o600) // which fails for another user's file
			}
		}
		start = 0
		_, err = f.openOnce(to, f.part, to.Create)
		return writeError(err, to, f.part, f.to)
	})
	return start, done, err
}

// copyFrom has the chunks from an offset copied, as far after the first missing one as the window
// allows.
func (c *copier) copyFrom(ctx context.Context, f *largeFile, start int64) (err error) {
	var inFlight []chunk
	for off := start; off < f.info.Size() && err == nil; off += chunkSize {
		next := chunk{f, off, int(min(chunkSize, f.info.Size()-off)), make(chan error, 1)}
		select {
		case c.chunks <- next:
			inFlight = append(inFlight, next)
		case <-ctx.Done():
			err = ctx.Err()
		}
		if len(inFlight) == writeWindow/chunkSize {
			err = cmp.Or(err, <-inFlight[0].done)
			inFlight = inFlight[1:]
		}
	}
	for _, ch := range inFlight {
		err = cmp.Or(err, <-ch.done)
	}
	return err
}

// copyChunks copies chunks on one lane until all are copied.
func (c *copier) copyChunks(ctx context.Context, lane int) {
	if c.openLanes {
		_ = c.with(ctx, lane, func(files, writable) error { return nil }) // an error shows again when it is used
	}
	buf := make([]byte, chunkSize)
	for ch := range c.chunks {
		f := ch.file
		err := c.with(ctx, lane, func(from files, to writable) error {
			src, err := f.openOnce(from, f.from, from.Open)
			if err != nil {
				return err
			}
			dst, err := f.openOnce(to, f.part, to.Reopen)
			if err != nil {
				return writeError(partGone(err), to, f.part, f.to)
			}
			n, err := src.ReadAt(buf[:ch.n], ch.off)
			if n < ch.n {
				if err == nil || errors.Is(err, io.EOF) {
					err = errShrank
				}
				return err
			}
			_, err = dst.WriteAt(buf[:ch.n], ch.off)
			return writeError(err, to, f.part, f.to)
		})
		if err == nil {
			c.Progress.copied.Add(int64(ch.n))
		}
		ch.done <- err
	}
}

var errShrank = errors.New("the file became shorter during the copy")

// opened is a file on one connection: the source, or the part.
type opened struct {
	connection any
	name       string
}

// openOnce opens the source or the part, once on each connection.
func (f *largeFile) openOnce(connection any, name string, open func(name string) (handle, error)) (handle, error) {
	once, _ := f.open.LoadOrStore(opened{connection, name}, sync.OnceValues(func() (handle, error) { return open(name) }))
	return once.(func() (handle, error))()
}

// close closes what was opened. A lost connection has closed its files already.
func (f *largeFile) close() error {
	var all []func() error
	for key, once := range f.open.Range {
		h, err := once.(func() (handle, error))()
		if err != nil {
			continue
		}
		all = append(all, func() error {
			if err := h.Close(); key.(opened).name == f.part && !isLost(err) {
				return err
			}
			return nil // all was read, or reading has failed
		})
	}
	f.open.Clear()
	return concurrently(all...)
}

// concurrently calls functions that each take a round trip, and returns one of their errors.
func concurrently(all ...func() error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// finish puts a complete part in place.
func (c *copier) finish(ctx context.Context, f *largeFile) error {
	if err := f.close(); err != nil {
		return err // a full disk may show only now
	}
	again := false
	return c.with(ctx, c.nextLane(), func(from files, to writable) error {
		if again {
			// The answer was lost with the connection: the part may be in place.
			if _, err := to.Lstat(f.part); errors.Is(err, fs.ErrNotExist) && c.finished(from, to, f.job) {
				return nil
			}
		}
		again = true
		return writeError(c.putInPlace(from, to, f.job, f.part, f.info.Size()), to, f.part, f.to)
	})
}
