package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
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

// findParts finds the parts that other copies have of files in a folder of the target. A
// folder that cannot be listed may be written all the same.
func (c *copier) findParts(ctx context.Context, dir string, jobs []job) {
	if !c.Resume {
		limited, cancel := context.WithTimeout(ctx, maxListing)
		defer cancel()
		ctx = limited
	}
	var names []string
	_ = c.To.write(ctx, c.nextLane(), func(to writable) (err error) {
		names, err = to.Parts(ctx, dir)
		return err
	})
	if len(names) == 0 {
		return
	}
	for i, j := range jobs {
		stem := c.stemOf(j)
		for _, name := range names {
			if name = c.To.join(dir, name); strings.HasPrefix(name, stem) {
				jobs[i].parts = append(jobs[i].parts, name)
			}
		}
	}
}

// clearParts removes the parts of copies that died, or takes one over as into, if that is
// wanted. It fails if one is still being written. A copy that is only disconnected notices
// later that it lost its part.
func (c *copier) clearParts(ctx context.Context, j job, into string) error {
	for _, name := range j.parts {
		err := c.To.write(ctx, c.nextLane(), func(to writable) error {
			alive, err := isAlive(ctx, to, name)
			if alive {
				return ErrOtherCopy
			}
			if err != nil {
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

// isAlive reports whether somebody writes a part.
func isAlive(ctx context.Context, to writable, name string) (bool, error) {
	last, err := to.Lstat(name)
	for range periods {
		if err != nil {
			return false, err
		}
		if err := ctxtime.Sleep(ctx, quiet); err != nil {
			return false, err
		}
		before := last
		last, err = to.Lstat(name)
		if err == nil && last.Size() == before.Size() && last.ModTime().Equal(before.ModTime()) {
			return false, nil
		}
	}
	return err == nil, err
}
