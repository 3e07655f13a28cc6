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

type local struct{}

func (local) use(ctx context.Context, _ int, f func(files) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(local{})
}

func (local) join(dir, name string) string         { return filepath.Join(dir, name) }
func (local) split(path string) (dir, base string) { return filepath.Dir(path), filepath.Base(path) }

func (local) Stat(name string) (fs.FileInfo, error)       { return os.Stat(name) }
func (local) Glob(pattern string) ([]string, error)       { return filepath.Glob(pattern) }
func (local) ReadLink(name string) (string, error)        { return os.Readlink(name) }
func (local) Symlink(target, name string) error           { return os.Symlink(target, name) }
func (local) Open(name string) (source, error)            { return os.Open(name) }
func (local) Replace(name, other string) error            { return os.Rename(name, other) }
func (local) Remove(name string) error                    { return os.Remove(name) }
func (local) SetMode(name string, mode fs.FileMode) error { return os.Chmod(name, mode.Perm()) }
func (local) SetTimes(name string, t time.Time) error     { return os.Chtimes(name, t, t) }

// Full is no question here: the system's own errors say it.
func (local) Full(string) bool { return false }

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

func (local) Mkdir(name string) error {
	err := os.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if info, e := os.Stat(name); e == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

func (local) Create(name string) (sink, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// full reports whether an error of this computer's is a full disk or quota.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}
