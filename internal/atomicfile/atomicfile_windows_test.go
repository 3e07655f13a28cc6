package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tunctl/internal/dev/must"
)

func TestWriteWhileRead(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"replaced": func(path string) error { return Write(path, []byte("new"), 0o600) },
		"removed":  Remove,
	} {
		path := filepath.Join(t.TempDir(), "agent.json")
		must.Do(t, os.WriteFile(path, []byte("old"), 0o600))
		reader, err := os.Open(path)
		must.Do(t, err)
		time.AfterFunc(50*time.Millisecond, func() { _ = reader.Close() })
		if err := change(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Remove(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
}
