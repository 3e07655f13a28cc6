package transfer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Local is this computer.
func Local() Place { return &local{} }

// local is this computer.
type local struct{ target *localTarget }

func (*local) use(ctx context.Context, _ int, f func(files) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(localFiles{})
}

func (l *local) write(ctx context.Context, _ int, f func(writable) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(l.target)
}

func (l *local) writeBelow(dir string) (done func() error, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	l.target = &localTarget{dir, root}
	return root.Close, nil
}

func (*local) join(dir, name string) string { return filepath.Join(dir, name) }

func (*local) split(path string) (dir, base string) { return filepath.Dir(path), filepath.Base(path) }

// localFiles are the files of this computer as sources. Only localTarget writes.
type localFiles struct{}

func (localFiles) Stat(name string) (fs.FileInfo, error)  { return os.Stat(name) }
func (localFiles) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }
func (localFiles) Glob(pattern string) ([]string, error)  { return filepath.Glob(pattern) }
func (localFiles) ReadLink(name string) (string, error)   { return os.Readlink(name) }

func (localFiles) RealPath(name string) (string, error) {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(resolved)
}

func (localFiles) Open(name string) (handle, error) {
	return openRegular(name, os.O_RDONLY, os.Stat, os.OpenFile)
}

func (localFiles) ReadDirContext(_ context.Context, name string) ([]fs.FileInfo, error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Readdir(-1) // without those that were removed meanwhile
}

// localTarget is this computer as the target of a copy. It reads, writes and changes
// nothing outside of one folder, whatever names and links a host lists.
type localTarget struct {
	dir  string
	root *os.Root
}

// rel is a name relative to the root, which refuses one that leads out of it.
func (t *localTarget) rel(name string) string {
	rel, err := filepath.Rel(t.dir, name)
	if err != nil {
		return name
	}
	return rel
}

func (t *localTarget) Stat(name string) (fs.FileInfo, error)  { return t.root.Stat(t.rel(name)) }
func (t *localTarget) Lstat(name string) (fs.FileInfo, error) { return t.root.Lstat(t.rel(name)) }
func (t *localTarget) Symlink(target, name string) error      { return t.root.Symlink(target, t.rel(name)) }
func (t *localTarget) Remove(name string) error               { return t.root.Remove(t.rel(name)) }
func (t *localTarget) Chmod(name string, mode fs.FileMode) error {
	return t.root.Chmod(t.rel(name), mode)
}

func (t *localTarget) Chtimes(name string, accessed, modified time.Time) error {
	return t.root.Chtimes(t.rel(name), accessed, modified)
}

func (t *localTarget) Replace(name, other string) error {
	return t.root.Rename(t.rel(name), t.rel(other))
}

// Full is not needed: the errors of the system are specific.
func (t *localTarget) Full(string) bool { return false }

// Mkdir follows no link, not even one inside the root: the copy itself may have created
// it, for a hostile host.
func (t *localTarget) Mkdir(name string, mode fs.FileMode) (existed bool, err error) {
	rel := t.rel(name)
	err = t.root.Mkdir(rel, 0o700)
	if err == nil {
		return false, nil
	}
	there, e := t.root.Lstat(rel)
	switch {
	case e != nil:
		return false, err
	case there.Mode()&fs.ModeSymlink != 0:
		return false, errLinkInPlace
	case !there.IsDir():
		return false, err
	}
	if narrow := narrower(there.Mode(), mode); narrow != there.Mode().Perm() {
		_ = t.root.Chmod(rel, narrow) // fails for another's folder: a warning follows at the end
	}
	return true, nil
}

func (t *localTarget) Open(name string) (handle, error) {
	return openRegular(t.rel(name), os.O_RDONLY, t.root.Stat, t.root.OpenFile)
}

func (t *localTarget) Create(name string) (handle, error) {
	rel := t.rel(name)
	return createNew(
		func() (*os.File, error) { return t.root.OpenFile(rel, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) },
		func() error { return t.root.Remove(rel) },
	)
}

func (t *localTarget) Reopen(name string) (handle, error) {
	return openRegular(t.rel(name), os.O_RDWR, t.root.Lstat, t.root.OpenFile)
}

var (
	errLinkInPlace = errors.New("the target has a link of this name, and links are not followed: name the folder it leads to")
	errNotAFile    = errors.New("not a regular file")
)

// narrower is the mode of a folder during the copy: others have no permission that they
// do not have at the end.
func narrower(there, wanted fs.FileMode) fs.FileMode {
	return there.Perm() & (wanted.Perm() | 0o700)
}

// openRegular opens only regular files: opening a FIFO blocks, and opening a device may
// have effects.
func openRegular(
	name string, flags int,
	stat func(string) (fs.FileInfo, error),
	open func(string, int, fs.FileMode) (*os.File, error),
) (*os.File, error) {
	info, err := stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotAFile
	}
	f, err := open(name, flags|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(errNotAFile, err)
	}
	return f, nil
}
