package configs

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/dev/wait"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// serving runs a watch for the rest of the test, and returns its calls of changed.
func serving(t *testing.T, w *watch) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	calls, done := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(done)
		w.serve(ctx, func() { calls <- struct{}{} })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return calls
}

func notified(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	notifier, err := fsnotify.NewWatcher()
	must(t, err)
	t.Cleanup(func() { _ = notifier.Close() })
	return serving(t, newWatch(path, notifier))
}

func waitFor(t *testing.T, calls <-chan struct{}) {
	t.Helper()
	wait.For(t, "the change is told", calls)
}

func TestAWriteIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	writeFile(t, path, "a")
	calls := notified(t, path)
	writeFile(t, path, "b")
	waitFor(t, calls)
	must(t, os.Remove(path))
	waitFor(t, calls)
	writeFile(t, path, "b")
	waitFor(t, calls)
}

func TestARenameOverTheFileIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	writeFile(t, path, "a")
	calls := notified(t, path)
	for _, text := range []string{"b", "c"} { // the second would be missed by a watch on the file
		writeFile(t, path+"~", text)
		must(t, os.Rename(path+"~", path))
		waitFor(t, calls)
	}
}

func TestAWriteToWhatTheFileLinksToIsTold(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege on Windows")
	}
	target, path := filepath.Join(t.TempDir(), "dotfile"), filepath.Join(t.TempDir(), "config.toml")
	writeFile(t, target, "a")
	must(t, os.Symlink(target, path))
	calls := notified(t, path)
	writeFile(t, target, "b")
	waitFor(t, calls)
}

func TestAFileInAFolderThatComesLaterIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later", "tunctl", "config.toml")
	calls := notified(t, path)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	writeFile(t, path, "a")
	waitFor(t, calls)
	writeFile(t, path, "b")
	waitFor(t, calls)
}

func TestWithoutNotificationsChangesAreStillTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	synctest.Test(t, func(t *testing.T) {
		calls := serving(t, newWatch(path, nil))
		writeFile(t, path, "a")
		start := time.Now()
		<-calls
		if took := time.Since(start); took != pollUnwatched {
			t.Errorf("told after %v, want %v", took, pollUnwatched)
		}
	})
}

func TestManyEventsAreToldOnceAfterTheLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	synctest.Test(t, func(t *testing.T) {
		w, events := newWatch(path, nil), make(chan fsnotify.Event)
		w.events = events
		calls := serving(t, w)
		start := time.Now()
		for i := range 10 {
			writeFile(t, path, string(rune('a'+i)))
			events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			time.Sleep(settle / 2)
		}
		<-calls
		if took := time.Since(start); took != 9*settle/2+settle {
			t.Errorf("told after %v, want %v", took, 9*settle/2+settle)
		}
		time.Sleep(time.Hour)
		if len(calls) > 0 {
			t.Error("told twice of one change")
		}
	})
}

func TestATouchIsNotAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	writeFile(t, path, "a")
	w := newWatch(path, nil)
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(path, later, later))
	writeFile(t, path, "a")
	if w.differs() {
		t.Error("a file with the same content counts as changed")
	}
	writeFile(t, path, "b")
	if !w.differs() || w.differs() {
		t.Error("new content does not count as changed once")
	}
}

func TestEventsOfOtherFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	w := newWatch(filepath.Join(dir, "config.toml"), nil)
	if w.concerns(fsnotify.Event{Name: filepath.Join(dir, "agent.log")}) {
		t.Error("a log's write makes the watch look at the config")
	}
}

func TestWatchTellsOnceThatItWatchesAndEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := 0
	if err := Watch(ctx, filepath.Join(t.TempDir(), "config.toml"), func() { calls++ }); err != nil {
		t.Errorf("Watch: %v", err)
	}
	if calls != 1 {
		t.Errorf("told %d times, want once", calls)
	}
}

func TestAFileThatIsBeingSavedIsNotBelievedYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, steps := range map[string][]func(){
		"written in two steps": {func() { save("") }, func() { save("new") }},
		"moved away first":     {func() { _ = os.Remove(path) }, func() { save("new") }},
	} {
		t.Run(name, func(t *testing.T) {
			save("new")
			want := Digest(path)
			save("old")
			before := Digest(path)
			if _, changed := ChangedDigest(path, before); changed {
				t.Error("a file that nobody touched has changed")
			}
			synctest.Test(t, func(t *testing.T) {
				steps[0]()
				go func() {
					time.Sleep(quietTime / 2)
					steps[1]()
				}()
				if mark, changed := ChangedDigest(path, before); !changed || mark != want {
					t.Errorf("got %s, %v", mark, changed)
				}
			})
		})
	}
}
