package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"tunctl/internal/ctxtime"
)

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
		entries, err = to.ReadDir(listing, dir)
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
