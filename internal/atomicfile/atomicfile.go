// Package atomicfile replaces files atomically: a reader sees the old content or the new,
// also after a crash, and a failed write leaves no file behind. It knows no file of
// tunctl and no format.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces or creates the file at path, with exactly that mode. It replaces a
// symbolic link at path, unless the caller writes to its Target.
func Write(path string, data []byte, mode fs.FileMode) error {
	temp, err := fill(path, data, mode)
	if err != nil {
		return err
	}
	if err := rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncFolder(filepath.Dir(path))
}

// Target is the file that a path leads to, over symbolic links, and its mode: 0600 if there is none.
func Target(path string) (file string, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, 0o600, nil
	}
	if err != nil {
		return "", 0, err
	}
	file, err = filepath.EvalSymlinks(path)
	return file, info.Mode(), err
}

// Create creates the file at path with exactly that mode. If it exists, also if another
// process creates it at the same moment, it stays and the error is fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	temp, err := fill(path, data, mode)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Link(temp, path), os.Remove(temp)); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// fill writes data to a new file in the folder of path, syncs it, and returns its name.
// The mode comes last: until the file is complete, only its owner can read it.
func fill(path string, data []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tunctl-*")
	if err != nil {
		return "", withPath(path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(withPath(path, err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// withPath replaces the path of a temporary file, which nobody knows, in an error.
func withPath(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}
