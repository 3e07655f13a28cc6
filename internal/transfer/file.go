package transfer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/sftp"

	"tunctl/internal/ctxtime"
)

// copySmall copies a file in one piece.
func (c *copier) copySmall(ctx context.Context, j job) error {
	if err := c.clearParts(ctx, j, ""); err != nil {
		return err
	}
	part := c.partOf(j)
	return c.with(ctx, c.nextLane(), func(from files, to writable) error {
		if c.Resume && c.finished(from, to, j) {
			c.Progress.skipped.Add(j.info.Size())
			return nil
		}
		n, err := copyBytes(from, to, j, part)
		if err == nil {
			err = writeError(c.putInPlace(from, to, j, part, n), to, part, j.to)
		}
		if err != nil {
			_ = to.Remove(part)
			return err
		}
		c.Progress.copied.Add(n)
		c.Progress.total.Add(n - j.info.Size())
		return nil
	})
}

// copyBytes copies the bytes of a small file into its part, and returns how many there
// were.
func copyBytes(from files, to writable, j job, part string) (n int64, err error) {
	src, err := from.Open(j.from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = src.Close() }()
	dst, err := to.Create(part)
	if err != nil {
		return 0, writeError(err, to, part, j.to)
	}
	defer func() {
		if e := dst.Close(); err == nil {
			err = writeError(e, to, part, j.to)
		}
	}()
	size := j.info.Size()
	buf := make([]byte, cmp.Or(size, smallFile))
	for {
		got, err := src.ReadAt(buf, n)
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if int64(got) < size {
			if err := checkSize(from, j); err != nil {
				return n, err
			}
		}
		if got > 0 {
			if _, err := dst.WriteAt(buf[:got], n); err != nil {
				return n, writeError(err, to, part, j.to)
			}
		}
		n += int64(got)
		// Systems report a size of 0 for files that they make up, as those of /proc.
		if size > 0 || got < len(buf) {
			return n, nil
		}
	}
}

// checkSize fails if a file is no longer as large as it was. Systems report one page for
// files of /sys, whatever these contain.
func checkSize(from files, j job) error {
	now, err := from.Stat(j.from)
	if err == nil && now.Size() != j.info.Size() {
		err = errShrank
	}
	return err
}

// putInPlace gives a complete part its mode, its times and its name. It checks the
// source once more: the copy of a file that was changed meanwhile may be inconsistent.
func (c *copier) putInPlace(from files, to writable, j job, part string, size int64) error {
	err := concurrently( // each is a round trip
		func() error { return to.Chmod(part, j.info.Mode().Perm()) },
		func() error { return to.Chtimes(part, j.info.ModTime(), j.info.ModTime()) },
		func() error {
			there, err := to.Lstat(part)
			if err == nil && (there.Size() != size || !there.Mode().IsRegular()) {
				err = fmt.Errorf("the unfinished file has %d bytes instead of %d", there.Size(), size)
			}
			return err
		},
	)
	if err == nil {
		err = to.Replace(part, j.to)
	}
	if err != nil {
		return partGone(err)
	}
	now, err := from.Stat(j.from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Warn("%q was removed during the copy", j.from)
	case err != nil:
		return err
	case now.Size() != j.info.Size() || now.ModTime().Unix() != j.info.ModTime().Unix():
		c.Warn("%q changed during the copy: the copy may mix old and new data", j.from)
	}
	return nil
}

// tailSize is how much of the end of an existing file is compared with the source.
const tailSize = 1 << 20

// finished reports whether an earlier copy is complete: the same size, time and tail.
func (c *copier) finished(from files, to writable, j job) bool {
	there, err := to.Stat(j.to)
	return err == nil && there.Mode().IsRegular() && there.Size() == j.info.Size() &&
		there.ModTime().Unix() == j.info.ModTime().Unix() && sameTail(from, to, j.from, j.to, j.info.Size())
}

// sameTail compares two files just before an offset.
func sameTail(from files, to writable, a, b string, end int64) bool {
	x, y := tail(from, a, end), tail(to, b, end)
	return x != nil && y != nil && bytes.Equal(x, y)
}

// tail is the part of a file just before an offset; nil if it cannot be read.
func tail(in openable, name string, end int64) []byte {
	f, err := in.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, min(end, tailSize))
	if n, _ := f.ReadAt(text, end-int64(len(text))); n < len(text) {
		return nil
	}
	return text
}

// errFull is a full disk or quota.
var errFull = errors.New("no space left (the disk is full or the quota is used up)")

// writeError explains a failed write, with the name of the target instead of the part, and
// distinguishes a full disk from other failures.
func writeError(err error, to writable, part, name string) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && !isLost(err) {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	const failure = 4 // SSH_FX_FAILURE
	status, answer := errors.AsType[*sftp.StatusError](err)
	unexplained := answer && status.Code == failure
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, errQuota), unexplained && to.Full(part):
		err = fmt.Errorf("%w: %w", errFull, err)
	case unexplained:
		err = fmt.Errorf("the host gives no reason; a used-up quota is the most common one: %w", err)
	}
	return fmt.Errorf("cannot write %q: %w", name, err)
}

const (
	partPrefix = ".tunctl-"
	partSuffix = ".part"

	// quiet is how long nobody writes a part of a copy that died. What that copy had sent may
	// still arrive, so a part counts as alive only if it changed in each of so many periods.
	quiet   = 3 * time.Second
	periods = 3
	// maxListing limits the search for parts, unless one is to be continued.
	maxListing = 5 * time.Second
)

func isPart(name string) bool {
	return strings.HasPrefix(name, partPrefix) && strings.HasSuffix(name, partSuffix)
}

// stemOf begins the names of all parts of a file. It contains the version of the source, so
// that a changed source never continues an old part.
func (c *copier) stemOf(j job) string {
	dir, base := c.To.split(j.to)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", base, j.info.Size(), j.info.ModTime().Unix()))
	return c.To.join(dir, partPrefix+hex.EncodeToString(sum[:8]))
}

// partOf is the name of a file until it is complete. Two copies of a file, even from two
// computers, have two.
func (c *copier) partOf(j job) string { return c.stemOf(j) + "-" + c.id + partSuffix }

// ErrOtherCopy says that another copy of the same file is running.
var ErrOtherCopy = errors.New("another copy is writing this file")

// errPartGone says that a copy lost its part.
var errPartGone = fmt.Errorf("the unfinished file is gone (removed, or %w)", ErrOtherCopy)

// partGone explains why the part that this copy has written does not exist.
func partGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errPartGone
	}
	return err
}

// findParts finds the parts of other copies in a folder of the target. A folder that cannot be
// listed may be written all the same.
func (c *copier) findParts(ctx context.Context, dir string, jobs []job) {
	limit := maxListing
	if c.Resume {
		limit = math.MaxInt64
	}
	var entries []fs.FileInfo
	_ = c.To.use(ctx, c.nextLane(), func(to files) (err error) {
		listing, cancel := context.WithTimeout(ctx, limit) // a channel that is opened here lives longer
		defer cancel()
		entries, err = to.ReadDirContext(listing, dir)
		return err
	})
	var parts []string
	for _, e := range entries {
		if isPart(e.Name()) {
			parts = append(parts, c.To.join(dir, e.Name()))
		}
	}
	for i := range jobs {
		jobs[i].parts = parts
	}
}

// clearParts removes the parts of copies of a file that died, or takes one over as into, if
// that is wanted. It fails if one is still being written. A copy that is only disconnected
// notices later that it lost its part.
func (c *copier) clearParts(ctx context.Context, j job, into string) error {
	stem := c.stemOf(j)
	for _, name := range j.parts {
		if !strings.HasPrefix(name, stem) {
			continue
		}
		err := c.To.write(ctx, c.nextLane(), func(to writable) error {
			if err := awaitQuiet(ctx, to, name); err != nil {
				return err
			}
			if c.Resume && into != "" {
				return to.Replace(name, into)
			}
			return to.Remove(name)
		})
		// Another user's part can stay, and who removed one may have it.
		if errors.Is(err, ErrOtherCopy) || isLost(err) || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// awaitQuiet waits until nobody writes a part, and fails if somebody does for long.
func awaitQuiet(ctx context.Context, to writable, name string) error {
	last, err := to.Lstat(name)
	for range periods {
		if err != nil {
			return err
		}
		if err := ctxtime.Sleep(ctx, quiet); err != nil {
			return err
		}
		before := last
		if last, err = to.Lstat(name); err == nil && last.Size() == before.Size() && last.ModTime().Equal(before.ModTime()) {
			return nil
		}
	}
	return cmp.Or(err, ErrOtherCopy)
}
