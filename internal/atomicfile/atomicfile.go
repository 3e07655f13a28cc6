// Package atomicfile puts files in place whole or not at all: who reads one sees the
// old content or the new, also after a crash, and a write that fails leaves nothing
// behind. It knows no file of ours and no format.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path, or makes it, with exactly that mode. A symbolic
// link at path is replaced and not followed: whoever wants the file behind it
// resolves the link first.
func Write(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	temp, err := fill(path, data, mode)
	if err != nil {
		return err
	}
	if err := rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncFolder(dir)
}

// Create makes the file at path with exactly that mode. Where there is one already,
// also one that another process makes at the same moment, that one stays and the
// error is fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	temp, err := fill(path, data, mode)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Link(temp, path), os.Remove(temp)); err != nil {
		return err
	}
	return syncFolder(dir)
}

// fill makes a new file beside path with data in it, on the disk, and returns its name.
// The mode comes last: until the file is whole, only its owner can read it.
func fill(path string, data []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tunctl-*")
	if err != nil {
		return "", about(path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(about(path, err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// about is an error about a temporary file as one about the file that it was to become:
// nobody knows the other.
func about(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}
