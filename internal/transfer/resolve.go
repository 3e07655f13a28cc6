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
	target, err := stat(ctx, c.To, c.Target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", withPath(c.Target, err)
	}
	exists := err == nil
	if exists && target.IsDir() {
		return found, c.Target, c.nameInTarget(found)
	}
	dir, _ = c.To.split(c.Target)
	switch into := len(found) > 1 || strings.HasSuffix(c.Target, "/"); {
	case exists && (into || found[0].info.IsDir()):
		err = fmt.Errorf("%q is not a folder", c.Target)
	case into:
		err = &NoFolderError{c.Target}
	case !exists:
		if _, err = stat(ctx, c.To, dir); errors.Is(err, fs.ErrNotExist) {
			err = &NoFolderError{dir}
		} else if err != nil {
			err = withPath(dir, err)
		}
	case !target.Mode().IsRegular():
		err = fmt.Errorf("%q is neither a file nor a folder", c.Target)
	}
	found[0].to = c.Target
	return found, dir, err
}

// nameInTarget gives the sources their names in the folder of the copy.
func (c *copier) nameInTarget(found []job) error {
	for i := range found {
		_, base := c.From.split(found[i].from)
		if found[i].to = c.To.join(c.Target, base); !c.isName(base) && found[i].to != c.To.join(c.Target, "") {
			return fmt.Errorf("%q is not a valid file name in %q: give the copy a name", base, c.Target)
		}
	}
	return nil
}

// stat looks at a file of a place.
func stat(ctx context.Context, in Place, name string) (info fs.FileInfo, err error) {
	err = in.use(ctx, 0, func(f files) error {
		info, err = f.Stat(name)
		return err
	})
	return info, err
}

// NoFolderError says that the folder to copy into does not exist.
type NoFolderError struct{ Path string }

// Error implements error.
func (e *NoFolderError) Error() string { return fmt.Sprintf("no folder %q", e.Path) }

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
	begin := strings.TrimSuffix(c.To.join(dir, "x"), "x") // with one separator, also of the root
	return path != dir && strings.HasPrefix(path, begin)
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
type NoSourceError struct{ Path, problem string }

// Error implements error.
func (e *NoSourceError) Error() string { return e.problem }

// Is reports that it is fs.ErrNotExist.
func (e *NoSourceError) Is(target error) bool { return target == fs.ErrNotExist }

// expand finds the sources. A match of a pattern that cannot be read fails alone.
func (c *copier) expand(ctx context.Context) ([]job, error) {
	var found []job
	for _, name := range c.Sources {
		var jobs []job
		err := c.From.use(ctx, 0, func(from files) (err error) {
			jobs, err = sourcesOf(from, name)
			return err
		})
		if err != nil {
			return nil, withPath(name, withoutPath(err))
		}
		for _, j := range jobs {
			if j.unreadable == nil {
				found = append(found, j)
			}
			c.fail(j.from, j.unreadable)
		}
	}
	if len(found) == 0 {
		return nil, cmp.Or(c.failure(), errors.New("nothing to copy"))
	}
	return found, nil
}

// sourcesOf reads a name as it is, and else as a pattern.
func sourcesOf(from files, name string) ([]job, error) {
	info, err := from.Stat(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return []job{{from: name, info: info}}, err
	}
	if link, err := from.ReadLink(name); err == nil {
		return nil, &NoSourceError{name, fmt.Sprintf("%q is a link to %q, which does not exist", name, link)}
	} else if isLost(err) {
		return nil, err
	}
	if !strings.ContainsAny(name, "*?[") {
		return nil, &NoSourceError{name, fmt.Sprintf("no file or folder %q", name)}
	}
	matches, err := from.Glob(name)
	if err != nil {
		return nil, err
	}
	if len(matches) == 0 {
		return nil, &NoSourceError{name, fmt.Sprintf("nothing matches %q", name)}
	}
	return matched(from, matches)
}

// matched reads the matches of a pattern. A broken link is copied as a link, as within a
// folder.
func matched(from files, names []string) ([]job, error) {
	var jobs []job
	for _, name := range names {
		info, err := from.Stat(name)
		if err != nil && !isLost(err) {
			if itself, e := from.Lstat(name); e == nil && itself.Mode()&fs.ModeSymlink != 0 {
				info, err = itself, nil
			}
		}
		if isLost(err) {
			return nil, err
		}
		jobs = append(jobs, job{from: name, info: info, unreadable: withoutPath(err)})
	}
	return jobs, nil
}

// withPath adds the path to an error, unless it has one or the host cannot be reached.
func withPath(path string, err error) error {
	_, unreachable := errors.AsType[*connectError](err)
	_, missing := errors.AsType[*NoSourceError](err)
	if unreachable || missing {
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
