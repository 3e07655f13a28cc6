package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tunctl/internal/atomicfile"
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
		if err := atomicfile.Write(backup, before, mode); err != nil {
			return "", err
		}
	}
	return backup, atomicfile.Write(path, []byte(after), mode)
}
