//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAFileThatIsNotRegularIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { // the reader gets the end of the file at once
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_ = f.Close()
		}
	}()
	if _, err := editFile(path, "mark", func(text string) string { return "mark" + text }); err == nil {
		t.Error("it was edited")
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("it was replaced: %v, %v", info, err)
	}
}
