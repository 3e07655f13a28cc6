package transfer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// resolve finds the sources, their new names, and the folder of all of them.
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
		return nil, "", withPath(c.Target, err)
	}
	folder := err == nil && target.IsDir()
	switch into := len(found) > 1 || strings.HasSuffix(c.Target, "/"); {
	case folder:
	case err == nil && into:
		return nil, "", fmt.Errorf("%q is not a folder", c.Target)
	case into:
		return nil, "", &NoFolderError{c.Target}
	case err != nil:
		if err := c.checkFolder(ctx); err != nil {
			return nil, "", err
		}
	case found[0].info.IsDir():
		return nil, "", fmt.Errorf("%q is not a folder", c.Target)
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
			return nil, "", fmt.Errorf("%q is not a valid file name in %q: give the copy a name", base, c.Target)
		}
	}
	return found, c.Target, nil
}

// NoFolderError says that the folder to copy into does not exist.
type NoFolderError struct{ Path string }

// Error implements error.
func (e *NoFolderError) Error() string { return fmt.Sprintf("no folder %q", e.Path) }

// checkFolder checks the folder of a target that does not exist yet, for a clear error.
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
		return withPath(dir, err)
	}
	return nil
}

// checkNesting refuses to copy a folder into itself: its copy would be copied, too.
func (c *copier) checkNesting(ctx context.Context, jobs []job, dir string) error {
	for _, j := range jobs {
		if !j.info.IsDir() {
			continue
		}
		from, err := realPath(ctx, c.From, j.from)
		if err != nil {
			return err
		}
		to, err := realPath(ctx, c.To, j.to)
		if err != nil {
			return err
		}
		if !c.isBelow(to, from) {
			continue
		}
		same, err := c.sameFiles(ctx, dir)
		if err != nil {
			return err
		}
		if same {
			return fmt.Errorf("cannot copy %q into itself: %q is inside it", j.from, j.to)
		}
	}
	return nil
}

// realPath is the path of a file without links. The file itself may not exist yet.
func realPath(ctx context.Context, in Place, name string) (resolved string, err error) {
	err = in.use(ctx, 0, func(f files) error {
		resolved, err = f.RealPath(name)
		if err == nil || isLost(err) {
			return err
		}
		dir, base := in.split(name)
		resolved, err = f.RealPath(dir)
		resolved = in.join(resolved, base)
		return err
	})
	if err != nil {
		return "", withPath(name, withoutPath(err))
	}
	return resolved, nil
}

// isBelow reports whether a path is inside a folder.
func (c *copier) isBelow(path, dir string) bool {
	for {
		up, _ := c.To.split(path)
		switch up {
		case path:
			return false
		case dir:
			return true
		}
		path = up
	}
}

// sameFiles reports whether both ends of the copy have the same files under the same
// names, as two names of a host have, or the nodes of a cluster: whether a file that is
// created at one end appears at the other.
func (c *copier) sameFiles(ctx context.Context, dir string) (same bool, err error) {
	resolved, err := realPath(ctx, c.To, dir)
	if err != nil {
		return false, err
	}
	name := partPrefix + rand.Text() + partSuffix
	probe := c.To.join(dir, name)
	err = c.To.write(ctx, 0, func(to writable) error {
		f, err := to.Create(probe)
		if err == nil {
			err = f.Close()
		}
		return writeError(err, to, probe, dir)
	})
	if err != nil {
		return false, err
	}
	err = c.From.use(ctx, 0, func(from files) error {
		_, err := from.Lstat(c.From.join(resolved, name))
		if same = err == nil; isLost(err) {
			return err
		}
		return nil
	})
	return same, errors.Join(err, c.To.write(ctx, 0, func(to writable) error { return to.Remove(probe) }))
}

// NoSourceError says that a source does not exist.
type NoSourceError struct {
	Path    string
	Link    string // the target of a broken link; "": no link
	Pattern bool   // Path is a pattern that nothing matches
}

// Error implements error.
func (e *NoSourceError) Error() string {
	switch {
	case e.Link != "":
		return fmt.Sprintf("%q is a link to %q, which does not exist", e.Path, e.Link)
	case e.Pattern:
		return fmt.Sprintf("nothing matches %q", e.Path)
	}
	return fmt.Sprintf("no file or folder %q", e.Path)
}

// Is reports that it is fs.ErrNotExist.
func (e *NoSourceError) Is(target error) bool { return target == fs.ErrNotExist }

// expand finds the sources. A match of a pattern that cannot be read fails alone.
func (c *copier) expand(ctx context.Context) ([]job, error) {
	var found []job
	for _, name := range c.Sources {
		var s sources
		err := c.From.use(ctx, 0, func(from files) (err error) {
			s, err = sourcesOf(from, name)
			return err
		})
		if _, missing := errors.AsType[*NoSourceError](err); missing {
			return nil, err
		}
		if err != nil {
			return nil, withPath(name, withoutPath(err))
		}
		found = append(found, s.jobs...)
		for path, err := range s.failed {
			c.fail(path, err)
		}
	}
	if len(found) == 0 {
		return nil, cmp.Or(c.failure(), errors.New("nothing to copy"))
	}
	return found, nil
}

// sources are the files of one name or pattern.
type sources struct {
	jobs   []job
	failed map[string]error
}

// sourcesOf reads a name as it is, and else as a pattern.
func sourcesOf(from files, name string) (sources, error) {
	info, err := from.Stat(name)
	switch {
	case err == nil:
		return sources{jobs: []job{{from: name, info: info}}}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return sources{}, err
	}
	if link, err := from.ReadLink(name); err == nil {
		return sources{}, &NoSourceError{Path: name, Link: link}
	} else if isLost(err) {
		return sources{}, err
	}
	if !strings.ContainsAny(name, "*?[") {
		return sources{}, &NoSourceError{Path: name}
	}
	matches, err := from.Glob(name)
	if err != nil {
		return sources{}, err
	}
	if len(matches) == 0 {
		return sources{}, &NoSourceError{Path: name, Pattern: true}
	}
	return matched(from, matches)
}

// matched reads the matches of a pattern. A broken link is copied as a link, as within a
// folder.
func matched(from files, names []string) (sources, error) {
	s := sources{failed: map[string]error{}}
	for _, name := range names {
		info, err := from.Stat(name)
		if err != nil && !isLost(err) {
			if itself, e := from.Lstat(name); e == nil && itself.Mode()&fs.ModeSymlink != 0 {
				info, err = itself, nil
			}
		}
		switch {
		case isLost(err):
			return sources{}, err
		case err != nil:
			s.failed[name] = withoutPath(err)
		default:
			s.jobs = append(s.jobs, job{from: name, info: info})
		}
	}
	return s, nil
}

// withPath adds the path to an error, unless the host cannot be reached.
func withPath(path string, err error) error {
	if _, ok := errors.AsType[*connectError](err); ok {
		return err
	}
	return fmt.Errorf("%q: %w", path, err)
}

// withoutPath is a system's error without the call and the path, which the caller adds.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok && !isLost(err) {
		return e.Err
	}
	return err
}
