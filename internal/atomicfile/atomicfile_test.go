package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"tunctl/internal/dev/must"
)

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Do(t, err)
	return string(text)
}

// only fails unless the folder holds just those names.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.Do(t, err)
	if len(entries) != len(names) {
		t.Errorf("the folder holds %v, want %v", entries, names)
		return
	}
	for i, e := range entries {
		if e.Name() != names[i] {
			t.Errorf("the folder holds %v, want %v", entries, names)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o640} {
		text := mode.String()
		must.Do(t, Write(path, []byte(text), mode))
		info, err := os.Stat(path)
		must.Do(t, err)
		if runtime.GOOS != "windows" && info.Mode() != mode {
			t.Errorf("the mode is %v, want %v", info.Mode(), mode)
		}
		if got := content(t, path); got != text {
			t.Errorf("it holds %q, want %q", got, text)
		}
	}
	only(t, dir, "file")
}

func TestWriteOverALink(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	must.Do(t, Write(target, []byte("before"), 0o600))
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("no links here: %v", err)
	}
	must.Do(t, Write(path, []byte("after"), 0o600))
	if a, b := content(t, target), content(t, path); a != "before" || b != "after" {
		t.Errorf("the target holds %q, the link's place %q", a, b)
	}
}

func TestWriteFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	must.Do(t, os.MkdirAll(filepath.Join(path, "inhabited"), 0o700))
	if err := Write(path, []byte("text"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	only(t, dir, "folder")
	if err := Write(filepath.Join(dir, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	const many = 8
	errs := make([]error, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() { errs[i] = Create(path, []byte{byte('a' + i)}, 0o600) })
	}
	all.Wait()
	made := -1
	for i, err := range errs {
		switch {
		case err == nil && made < 0:
			made = i
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("%d: %v", i, err)
		}
	}
	if made < 0 || content(t, path) != string(rune('a'+made)) {
		t.Errorf("%d made it, and it holds %q", made, content(t, path))
	}
	only(t, dir, "file")
}
