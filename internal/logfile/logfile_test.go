package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tunctl/internal/dev/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFile(t *testing.T) {
	line := []byte(strings.Repeat("x", 9) + "\n")
	// write appends lines and closes the file.
	write := func(t *testing.T, f *File, lines int) {
		t.Helper()
		for range lines {
			if n, err := f.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		must.Do(t, f.Close())
	}
	// holds compares how many lines each file in the folder has.
	holds := func(t *testing.T, path, want string) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Dir(path))
		must.Do(t, err)
		var all []string
		for _, e := range entries {
			text, _ := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name())) // none of a folder
			all = append(all, fmt.Sprintf("%s %d", e.Name(), strings.Count(string(text), "\n")))
		}
		if got := strings.Join(all, ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	t.Run("keeps old ones", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		write(t, &File{Path: path, Max: 55, Old: 2}, 7)
		holds(t, path, "log 2, log.1 5")
		write(t, &File{Path: path, Max: 55, Old: 2}, 14) // as after a restart
		holds(t, path, "log 1, log.1 5, log.2 5")
	})
	t.Run("takes a longer line", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		write(t, &File{Path: path, Max: 5, Old: 1}, 2)
		holds(t, path, "log 1, log.1 1")
	})
	t.Run("is emptied where it cannot be renamed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		must.Do(t, os.MkdirAll(filepath.Join(path+".1", "inhabited"), 0o700))
		write(t, &File{Path: path, Max: 25, Old: 1}, 5)
		holds(t, path, "log 1, log.1 0")
	})
	t.Run("opens after an error", func(t *testing.T) {
		f := &File{Path: filepath.Join(t.TempDir(), "later", "log"), Max: 100, Old: 1}
		if _, err := f.Write(line); err == nil {
			t.Fatal("no error without a folder")
		}
		must.Do(t, os.Mkdir(filepath.Dir(f.Path), 0o700))
		write(t, f, 1)
	})
	t.Run("has whole lines of many writers", func(t *testing.T) {
		f := &File{Path: filepath.Join(t.TempDir(), "log"), Max: 1000, Old: 1}
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for range 25 {
					_, _ = f.Write(line) // the content is compared
				}
			})
		}
		writers.Wait()
		must.Do(t, f.Close())
		if text, err := os.ReadFile(f.Path); err != nil || string(text) != strings.Repeat(string(line), 100) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	})
}
