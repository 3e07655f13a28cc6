package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// backupSuffix marks the copy of a person's file as it was before we changed it.
const backupSuffix = ".before-tunctl"

// editFile changes a person's text file, and keeps a copy of how it was before us;
// backup is that copy's name, none where nothing changed, there was no file, or mark in
// it says that it was ours to change before. A link, as people with a folder of dotfiles
// have, stays one; any other file that ends up empty goes.
func editFile(path, mark string, change func(string) string) (backup string, err error) {
	linked := false
	if target, err := filepath.EvalSymlinks(path); err == nil {
		info, err := os.Lstat(path)
		linked = err == nil && info.Mode()&fs.ModeSymlink != 0
		path = target
	}
	mode := fs.FileMode(0o600)
	before, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	default:
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		mode = info.Mode().Perm()
	}
	after := change(string(before))
	if after == string(before) {
		return "", nil
	}
	if after == "" && !linked {
		return "", os.Remove(path)
	}
	if len(before) > 0 && !strings.Contains(string(before), mark) {
		backup = path + backupSuffix
		if err := replaceFile(backup, before, mode); err != nil {
			return "", err
		}
	}
	return backup, replaceFile(path, []byte(after), mode)
}

// replaceFile puts a file in place whole, or not at all.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tunctl-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close(), os.Chmod(f.Name(), mode))
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
