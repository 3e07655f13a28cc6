package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
)

const (
	chunkSize = 1 << 20
	// chunkWorkers keep twice a channel's window in flight on each lane.
	chunkWorkers = 4 * lanes
	// ahead is how far past the first missing byte a large file is written. A part is
	// whole up to that much before its end, however the copy ended.
	ahead = 32 * chunkSize
)

// chunk is a stretch of a large file.
type chunk struct {
	file *largeFile
	off  int64
	n    int
}

// largeFile is one that is copied in chunks.
type largeFile struct {
	job
	part string

	mu      sync.Mutex
	sources map[files]func() (source, error)
	sinks   map[writable]func() (sink, error)
	upTo    int64         // all before it is written
	beyond  map[int64]int // written stretches after it
	flying  int           // chunks under way
	err     error         // the first failure
	moved   chan struct{} // closed when one of these changed
}

// copyLarge copies a file in chunks that travel on all lanes at once.
func (c *copier) copyLarge(ctx context.Context, j job) error {
	f := &largeFile{
		job: j, part: c.partOf(j), beyond: map[int64]int{}, moved: make(chan struct{}),
		sources: map[files]func() (source, error){}, sinks: map[writable]func() (sink, error){},
	}
	defer func() { _ = f.close() }()
	start, done, err := c.begin(ctx, f)
	if err != nil || done {
		return err
	}
	c.Progress.skipped.Add(start)
	f.upTo = start
	for off := start; off < j.info.Size() && f.room(ctx, off); {
		ch := chunk{f, off, int(min(int64(c.pace.stretch()), j.info.Size()-off))}
		select {
		case c.chunks <- ch:
		case <-ctx.Done():
			f.landed(ch, ctx.Err())
		}
		off += int64(ch.n)
	}
	err = f.settled()
	if errors.Is(err, errShrank) { // a later copy cannot go on from it
		_ = c.dst.write(ctx, 0, func(to writable) error { return to.Remove(f.part) })
	}
	if err != nil {
		return err
	}
	return c.finish(ctx, f)
}

// begin finds where to begin: where an earlier copy left off, or nowhere.
func (c *copier) begin(ctx context.Context, f *largeFile) (start int64, done bool, err error) {
	err = c.with(ctx, c.nextLane(), func(from files, to writable) error {
		start, done = 0, false
		there, err := to.Stat(f.part)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if c.Resume && c.finished(from, to, f.job) {
				c.Progress.skipped.Add(f.info.Size())
				done = true
			}
			return nil
		case err != nil:
			return err
		case c.Resume && there.Size() <= f.info.Size():
			start = max(0, there.Size()-ahead)
			start -= start % chunkSize
			if start > 0 && sameTail(from, to, f.from, f.part, start) {
				return to.SetMode(f.part, 0o600) // an older tunctl left it open to others
			}
		}
		start = 0
		return to.Remove(f.part)
	})
	return start, done, err
}

// room waits until the file may be written at off, and reports whether it should be.
func (f *largeFile) room(ctx context.Context, off int64) bool {
	for {
		f.mu.Lock()
		failed, near, moved := f.err != nil, off-f.upTo < ahead, f.moved
		if !failed && near {
			f.flying++
		}
		f.mu.Unlock()
		if failed || near {
			return !failed
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// landed takes note of a chunk that was written, or was not.
func (f *largeFile) landed(ch chunk, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flying--
	if err != nil && f.err == nil {
		f.err = err
	}
	if err == nil {
		f.beyond[ch.off] = ch.n
		for n, ok := f.beyond[f.upTo]; ok; n, ok = f.beyond[f.upTo] {
			delete(f.beyond, f.upTo)
			f.upTo += int64(n)
		}
	}
	close(f.moved)
	f.moved = make(chan struct{})
}

// settled waits for the chunks under way. Each ends by itself when the copy's ctx does.
func (f *largeFile) settled() error {
	for {
		f.mu.Lock()
		flying, err, moved := f.flying, f.err, f.moved
		f.mu.Unlock()
		if flying == 0 {
			return err
		}
		<-moved
	}
}

// carryChunks copies chunks on one lane until there are no more.
func (c *copier) carryChunks(ctx context.Context, lane int) {
	if c.eager {
		_ = c.with(ctx, lane, func(files, writable) error { return nil }) // what is wrong shows when it is used
	}
	buf := make([]byte, chunkSize)
	for ch := range c.chunks {
		f := ch.file
		if err := c.pace.take(ctx, ch.n); err != nil {
			f.landed(ch, err)
			continue
		}
		err := c.with(ctx, lane, func(from files, to writable) error {
			src, err := f.source(from)
			if err != nil {
				return err
			}
			dst, err := f.sink(to)
			if err != nil {
				return inWords(err, to, f.part, f.to)
			}
			n, err := src.ReadAt(buf[:ch.n], ch.off)
			if n < ch.n {
				if err == nil || errors.Is(err, io.EOF) {
					err = errShrank
				}
				return err
			}
			if _, err := dst.WriteAt(buf[:ch.n], ch.off); err != nil {
				return inWords(err, to, f.part, f.to)
			}
			return nil
		})
		c.pace.give(ch.n)
		if err == nil {
			c.Progress.copied.Add(int64(ch.n))
		}
		f.landed(ch, err)
	}
}

var errShrank = errors.New("the file became shorter during the copy")

// source is the file to read over one connection, opened once.
func (f *largeFile) source(from files) (source, error) {
	f.mu.Lock()
	open, ok := f.sources[from]
	if !ok {
		open = sync.OnceValues(func() (source, error) { return from.Open(f.from) })
		f.sources[from] = open
	}
	f.mu.Unlock()
	return open()
}

// sink is the part to write over one connection, opened once.
func (f *largeFile) sink(to writable) (sink, error) {
	f.mu.Lock()
	open, ok := f.sinks[to]
	if !ok {
		open = sync.OnceValues(func() (sink, error) { return to.Create(f.part) })
		f.sinks[to] = open
	}
	f.mu.Unlock()
	return open()
}

// close closes what was opened. A connection that was lost took its files with it.
func (f *largeFile) close() error {
	f.mu.Lock()
	sources, sinks := f.sources, f.sinks
	f.sources, f.sinks = map[files]func() (source, error){}, map[writable]func() (sink, error){}
	f.mu.Unlock()
	var all []func() error
	for _, open := range sinks {
		if s, err := open(); err == nil {
			all = append(all, s.Close)
		}
	}
	for _, open := range sources {
		if s, err := open(); err == nil {
			all = append(all, func() error {
				_ = s.Close() // it was read whole, or has failed for another reason
				return nil
			})
		}
	}
	return atOnce(all...)
}

// atOnce does several things that each take a round trip, and returns what failed but
// for connections that were lost.
func atOnce(all ...func() error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() {
			if err := f(); !isLost(err) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func isLost(err error) bool {
	_, lost := errors.AsType[*lostError](err)
	return lost
}

// finish puts a whole part in place.
func (c *copier) finish(ctx context.Context, f *largeFile) error {
	if err := f.close(); err != nil {
		return err // a full disk may show only now
	}
	again := false
	return c.with(ctx, c.nextLane(), func(from files, to writable) error {
		if again {
			// The answer was lost with the connection; was it done?
			if there, err := to.Stat(f.to); err == nil && there.Size() == f.info.Size() {
				if _, err := to.Stat(f.part); errors.Is(err, fs.ErrNotExist) {
					return nil
				}
			}
		}
		again = true
		if err := c.settle(from, to, f.job, f.part); err != nil {
			return inWords(err, to, f.part, f.to)
		}
		return nil
	})
}
