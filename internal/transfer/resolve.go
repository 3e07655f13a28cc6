package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// resolve finds what the sources name and what each is to be called, and the folder that
// all of it is below.
func (c *copier) resolve(ctx context.Context) (found []job, dir string, err error) {
	found, err = c.expand(ctx)
	if err != nil {
		return nil, "", err
	}
	var target fs.FileInfo
	err = c.To.use(ctx, 0, func(to files) (err error) {
		target, err = to.Stat(c.Target)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%q: %w", c.Target, err)
	}
	folder := err == nil && target.IsDir()
	switch into := len(found) > 1 || strings.HasSuffix(c.Target, "/"); {
	case folder:
	case err == nil && into:
		return nil, "", fmt.Errorf("%q is no folder", c.Target)
	case into:
		return nil, "", &NoFolderError{c.Target}
	case err != nil:
		if err := c.checkFolder(ctx); err != nil {
			return nil, "", err
		}
	case found[0].info.IsDir():
		return nil, "", fmt.Errorf("%q is no folder", c.Target)
	case !target.Mode().IsRegular():
		return nil, "", fmt.Errorf("%q is neither a file nor a folder", c.Target)
	}
	if !folder {
		found[0].to = c.Target
		dir, _ = c.To.split(c.Target)
		return found, dir, nil
	}
	for i := range found {
		_, base := c.From.split(found[i].from)
		if found[i].to = c.To.join(c.Target, base); !c.isName(base) && found[i].to != c.To.join(c.Target, "") {
			return nil, "", fmt.Errorf("%q can be no name in %q: name the new one", base, c.Target)
		}
	}
	return found, c.Target, nil
}

// NoFolderError says that the folder to copy into is not there.
type NoFolderError struct{ Path string }

// Error implements error.
func (e *NoFolderError) Error() string { return fmt.Sprintf("there is no folder %q", e.Path) }

// checkFolder looks for the folder of a target that is yet to be made: a part that
// cannot be written would not say what is wrong.
func (c *copier) checkFolder(ctx context.Context) error {
	dir, _ := c.To.split(c.Target)
	err := c.To.use(ctx, 0, func(to files) error {
		_, err := to.Stat(dir)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &NoFolderError{dir}
	case err != nil:
		return fmt.Errorf("%q: %w", dir, err)
	}
	return nil
}

// expand finds the sources: a name first as it is, then as a pattern.
func (c *copier) expand(ctx context.Context) ([]job, error) {
	var found []job
	for _, name := range c.Sources {
		matches := []string{name}
		err := c.From.use(ctx, 0, func(from files) error {
			jobs, err := stats(from, matches)
			if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(name, "*?[") {
				matches, err = from.Glob(name)
				if err == nil && len(matches) == 0 {
					return fs.ErrNotExist
				}
				if err == nil {
					jobs, err = stats(from, matches)
				}
			}
			if err == nil {
				found = append(found, jobs...)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("nothing to copy")
	}
	return found, nil
}

func stats(from files, names []string) ([]job, error) {
	jobs := make([]job, 0, len(names))
	for _, name := range names {
		info, err := from.Stat(name)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job{from: name, info: info})
	}
	return jobs, nil
}
