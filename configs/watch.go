package configs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a file must be left alone before it is looked at: editors
	// write a new file and rename it, in several steps.
	settle = 100 * time.Millisecond

	// lull is how long a file that has just changed must stay as it is before it is
	// believed, and maxLulls how often that is tried.
	lull     = 20 * time.Millisecond
	maxLulls = 10

	// pollUnwatched is how often to look where the system tells of no changes.
	pollUnwatched = 2 * time.Second

	// pollWatched is how often to look all the same: on network file systems the
	// changes made by other machines are not told.
	pollWatched = 30 * time.Second
)

// Watch calls changed as soon as it watches, since the file may have changed after
// it was last read, and then whenever its content has changed, was removed or came
// to be, until ctx ends. Calls do not overlap.
func Watch(ctx context.Context, path string, changed func()) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watching the config: %w", err)
	}
	// Systems run out of watches. Looking now and then works everywhere.
	notifier, err := fsnotify.NewWatcher()
	if err != nil {
		notifier = nil
	} else {
		defer func() { _ = notifier.Close() }()
	}
	w := newWatch(path, notifier)
	changed()
	w.serve(ctx, changed)
	return nil
}

// watch looks at one file.
type watch struct {
	path     string
	notifier *fsnotify.Watcher // nil where the system has none for us
	events   <-chan fsnotify.Event
	errors   <-chan error

	target  string // where path leads when it is a symbolic link
	above   string // the nearest folder that is there, while that of the file is not
	watched bool   // the system tells of changes
	seen    string // the state of the file when last looked at
}

// newWatch begins to look at a file: what changes from now on is told by serve.
func newWatch(path string, notifier *fsnotify.Watcher) *watch {
	w := &watch{path: path, notifier: notifier}
	if notifier != nil {
		w.events, w.errors = notifier.Events, notifier.Errors
	}
	w.follow()
	w.seen = Mark(path)
	return w
}

func (w *watch) serve(ctx context.Context, changed func()) {
	next := time.NewTimer(w.interval())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.events:
			if !open {
				w.unnotified()
			}
			if !open || w.concerns(event) {
				next.Reset(settle)
			}
		case _, open := <-w.errors:
			if !open {
				w.unnotified()
			}
			next.Reset(settle) // some events were lost
		case <-next.C:
			w.follow()
			if w.differs() {
				changed()
			}
			next.Reset(w.interval())
		}
	}
}

// unnotified goes on without the system's notifications, which have ended.
func (w *watch) unnotified() {
	w.notifier, w.events, w.errors, w.watched = nil, nil, nil, false
}

// follow has the system tell of changes in the folder of the file, since a watch
// on the file itself would stay with the old one when an editor renames a new
// one over it; and in the folder of what it links to, as dotfile managers make.
func (w *watch) follow() {
	w.target = w.path
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		w.target = target
	}
	if w.notifier == nil {
		return
	}
	// Adding a folder again is cheap, and finds one that was replaced.
	w.watched = w.notifier.Add(filepath.Dir(w.path)) == nil
	w.awaitFolder()
	if folder := filepath.Dir(w.target); folder != filepath.Dir(w.path) {
		w.watched = w.notifier.Add(folder) == nil && w.watched
	}
}

// awaitFolder has the system tell when the folder of the file comes to be, as long
// as it is not there.
func (w *watch) awaitFolder() {
	if w.above != "" {
		_ = w.notifier.Remove(w.above) // it may be gone
		w.above = ""
	}
	for folder := filepath.Dir(w.path); !w.watched && w.above == "" && filepath.Dir(folder) != folder; {
		folder = filepath.Dir(folder)
		if w.notifier.Add(folder) == nil {
			w.above = folder
		}
	}
}

func (w *watch) interval() time.Duration {
	if w.watched {
		return pollWatched
	}
	return pollUnwatched
}

// concerns reports whether an event is about the file, or about a folder on the way
// to it that went away or came to be.
func (w *watch) concerns(event fsnotify.Event) bool {
	switch event.Name {
	case w.path, w.target, filepath.Dir(w.path), filepath.Dir(w.target):
		return true
	}
	return !w.watched && strings.HasPrefix(w.path, event.Name+string(filepath.Separator))
}

// differs reports whether the file is not as it was seen last.
func (w *watch) differs() bool {
	state := Mark(w.path)
	if state == w.seen {
		return false
	}
	w.seen = state
	return true
}

// Mark stands for the content of the config file at path, or for why it cannot be read:
// two reads with the same mark have read the same.
func Mark(path string) string {
	data, err := readFile(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// ChangedMark returns the mark of the config file at path, and whether it is another than
// before. A file that has just changed is looked at again until it stays as it is: some
// editors empty it first, or move it away.
func ChangedMark(path, before string) (mark string, changed bool) {
	mark = Mark(path)
	for range maxLulls {
		if mark == before {
			break
		}
		time.Sleep(lull)
		next := Mark(path)
		if next == mark {
			break
		}
		mark = next
	}
	return mark, mark != before
}
