package transfer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Local is this computer.
func Local() Place { return local{} }

// local is this computer to read from. What is written is below a folder; see below.
type local struct{ localPaths }

// localPaths are how this computer writes paths.
type localPaths struct{}

func (localPaths) join(dir, name string) string { return filepath.Join(dir, name) }

func (localPaths) split(path string) (dir, base string) {
	return filepath.Dir(path), filepath.Base(path)
}

func (local) use(ctx context.Context, _ int, f func(files) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(local{})
}

func (local) Stat(name string) (fs.FileInfo, error)  { return os.Stat(name) }
func (local) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }
func (local) Glob(pattern string) ([]string, error)  { return filepath.Glob(pattern) }
func (local) ReadLink(name string) (string, error)   { return os.Readlink(name) }

func (local) Open(name string) (source, error) {
	return openRegular(name, os.O_RDONLY, os.Stat, os.OpenFile)
}

func (local) ReadDir(name string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(name)
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return infos, err
		}
		infos = append(infos, info)
	}
	return infos, err
}

// full reports whether an error of this computer's is a full disk or quota.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

// below is this computer as the target of a copy. Nothing outside of one folder can be
// written, read or changed, whatever names and links a host lists.
type below struct {
	localPaths
	dir  string
	root *os.Root
}

func (local) below(dir string) (to target, done func() error, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	return &below{dir: dir, root: root}, root.Close, nil
}

func (b *below) write(ctx context.Context, _ int, f func(writable) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(b)
}

// rel is a name as the root has it. One that leads out is refused there.
func (b *below) rel(name string) string {
	rel, err := filepath.Rel(b.dir, name)
	if err != nil {
		return name
	}
	return rel
}

func (b *below) Stat(name string) (fs.FileInfo, error)   { return b.root.Stat(b.rel(name)) }
func (b *below) Lstat(name string) (fs.FileInfo, error)  { return b.root.Lstat(b.rel(name)) }
func (b *below) Symlink(target, name string) error       { return b.root.Symlink(target, b.rel(name)) }
func (b *below) Remove(name string) error                { return b.root.Remove(b.rel(name)) }
func (b *below) SetTimes(name string, t time.Time) error { return b.root.Chtimes(b.rel(name), t, t) }

func (b *below) Replace(name, other string) error {
	return b.root.Rename(b.rel(name), b.rel(other))
}

func (b *below) SetMode(name string, mode fs.FileMode) error {
	return b.root.Chmod(b.rel(name), mode.Perm())
}

// Full is no question here: the system's own errors say it.
func (b *below) Full(string) bool { return false }

// Mkdir follows no link, not even one that stays below: the copy itself may have made
// it, as the host wished.
func (b *below) Mkdir(name string, mode fs.FileMode) error {
	rel := b.rel(name)
	err := b.root.Mkdir(rel, 0o700)
	if err == nil {
		return nil
	}
	there, e := b.root.Lstat(rel)
	switch {
	case e != nil:
		return err
	case there.Mode()&fs.ModeSymlink != 0:
		return errLinkInPlace
	case !there.IsDir():
		return err
	}
	if narrow := narrower(there.Mode(), mode); narrow != there.Mode().Perm() {
		_ = b.root.Chmod(rel, narrow) // another's folder: at the end a warning says so
	}
	return nil
}

func (b *below) Open(name string) (source, error) {
	return openRegular(b.rel(name), os.O_RDONLY, b.root.Stat, b.root.OpenFile)
}

func (b *below) Create(name string) (sink, error) {
	return openRegular(b.rel(name), os.O_RDWR|os.O_CREATE, b.root.Lstat, b.root.OpenFile)
}

var (
	errLinkInPlace = errors.New("the target has a link of this name, and links are not followed: name the folder it leads to")
	errNotAFile    = errors.New("not a regular file")
)

// narrower is the mode of a folder that is being filled: nobody but its owner may do
// there what they may not when it is done.
func narrower(there, wanted fs.FileMode) fs.FileMode {
	return there.Perm() & (wanted.Perm() | 0o700)
}

// openRegular opens a regular file and nothing else: a FIFO would be waited for, and a
// device may act on being opened.
func openRegular(
	name string, flags int,
	stat func(string) (fs.FileInfo, error),
	open func(string, int, fs.FileMode) (*os.File, error),
) (*os.File, error) {
	info, err := stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, errNotAFile
	case err == nil, errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE != 0:
	default:
		return nil, err
	}
	f, err := open(name, flags|nonblock, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(errNotAFile, err)
	}
	return f, nil
}
