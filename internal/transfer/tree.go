package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

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
		entries, err = from.ReadDir(ctx, j.from)
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
			return errors.Join(to.SetTimes(f.to, f.info.ModTime()), to.SetMode(f.to, f.info.Mode()))
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
		err = to.Symlink(target, j.to)
		if err == nil || isLost(err) {
			return err
		}
		there, e := to.Lstat(j.to)
		switch {
		case e != nil:
			return err
		case there.IsDir():
			return errors.New("the target already has a folder of this name")
		}
		if err := to.Remove(j.to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return to.Symlink(target, j.to)
	})
}
