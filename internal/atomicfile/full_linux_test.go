package atomicfile

import (
	"bytes"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/smalldisk"
)

func TestWriteFullDisk(t *testing.T) {
	dir, child := smalldisk.New(t, 256)
	if !child {
		return
	}
	path := filepath.Join(dir, "file")
	must.Do(t, Write(path, []byte("before"), 0o600))
	large := bytes.Repeat([]byte("x"), 1<<20)
	if err := Write(path, large, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("replacing it says %v", err)
	}
	if err := Create(filepath.Join(dir, "new"), large, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("making one says %v", err)
	}
	if got := content(t, path); got != "before" {
		t.Errorf("it holds %q", got)
	}
	only(t, dir, "file")
}
