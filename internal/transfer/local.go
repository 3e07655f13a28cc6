package transfer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
