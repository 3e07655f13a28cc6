package autostart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tunctl/internal/atomicfile"
)

// write puts text at path in one step, making folders as needed. Text that is
// there already is left, so that nothing watching the folder wakes.
func write(path, text string) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot create the folder for start at login: %w", err)
	}
	if err := atomicfile.Write(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("cannot write the start at login entry: %w", err)
	}
	return nil
}

// erase removes path and then the folders above it that it leaves empty, up to
// and without stop.
func erase(path, stop string) error {
	err := os.Remove(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the start at login entry: %w", err)
	}
	dir := filepath.Dir(path)
	for len(dir) > len(stop) && os.Remove(dir) == nil { // fails on a folder with others' files
		dir = filepath.Dir(dir)
	}
	return nil
}

// read returns the text at path, "" when there is none.
func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the start at login entry: %w", err)
	}
	return string(text), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
