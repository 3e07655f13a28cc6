package configs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long after the last event a file is read: editors write a new file
	// and rename it, in several steps.
	settle = 100 * time.Millisecond

	// quietTime is how long a changed file must stay the same before it is used, and
	// maxQuietChecks how often that is checked.
	quietTime      = 20 * time.Millisecond
	maxQuietChecks = 10

	// pollUnwatched is how often to read the file without events of the system.
	pollUnwatched = 2 * time.Second

	// pollWatched is how often to read it with events: on network file systems there are
	// none for changes made by other machines.
	pollWatched = 30 * time.Second
)

// Watch calls changed once when it starts, since the file may have changed after it was
// last read, and then whenever the file was changed, removed or created, until ctx ends.
// Calls do not overlap.
func Watch(ctx context.Context, path string, changed func()) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watching the config: %w", err)
	}
	// Systems run out of watches. Polling works everywhere.
	notifier, err := fsnotify.NewWatcher() // nil with an error
	if err == nil {
		defer func() { _ = notifier.Close() }()
	}
	w := newWatch(path, notifier)
	changed()
	w.serve(ctx, changed)
	return nil
}

// watch watches one file.
type watch struct {
	path     string
	notifier *fsnotify.Watcher // nil: only polling
	events   <-chan fsnotify.Event
	errors   <-chan error

	target string        // the target of path, if it is a symbolic link
	poll   time.Duration // how often to read the file
	seen   string        // the digest of the file when last read
}

// newWatch starts to watch a file: serve reports changes from now on.
func newWatch(path string, notifier *fsnotify.Watcher) *watch {
	w := &watch{path: path, notifier: notifier}
	if notifier != nil {
		w.events, w.errors = notifier.Events, notifier.Errors
	}
	w.watchFolders()
	w.seen = Digest(path)
	return w
}

func (w *watch) serve(ctx context.Context, changed func()) {
	next := time.NewTimer(w.poll)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-w.events:
			if w.concerns(event) {
				next.Reset(settle)
			}
		case <-w.errors:
			next.Reset(settle) // some events were lost
		case <-next.C:
			w.watchFolders()
			if w.differs() {
				changed()
			}
			next.Reset(w.poll)
		}
	}
}

// watchFolders watches the folder of the file, since a watch on the file itself would
// stay with the old one when an editor renames a new one over it; and the folder of its
// target, since dotfile managers make links.
func (w *watch) watchFolders() {
	w.target = w.path
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		w.target = target
	}
	// Adding a folder again is cheap, and detects one that was replaced.
	w.poll = pollUnwatched
	if w.notifier != nil && w.notifier.Add(filepath.Dir(w.path)) == nil && w.notifier.Add(filepath.Dir(w.target)) == nil {
		w.poll = pollWatched
	}
}

// concerns reports whether an event is about the file, or about its folder, which may have
// been removed.
func (w *watch) concerns(event fsnotify.Event) bool {
	return slices.Contains([]string{w.path, w.target, filepath.Dir(w.path), filepath.Dir(w.target)}, event.Name)
}

// differs reports whether the file has changed since it was last read.
func (w *watch) differs() bool {
	state := Digest(w.path)
	if state == w.seen {
		return false
	}
	w.seen = state
	return true
}

// Digest identifies the content of the config file at path, or why it cannot be read.
func Digest(path string) string {
	data, err := readFile(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// ChangedDigest returns the digest of the config file at path, and whether it differs from
// before. It reads a changed file again until it stays the same: some editors empty it
// first, or move it away.
func ChangedDigest(path, before string) (digest string, changed bool) {
	digest = Digest(path)
	last := ""
	for i := 0; i < maxQuietChecks && digest != before && digest != last; i++ {
		time.Sleep(quietTime)
		last, digest = digest, Digest(path)
	}
	return digest, digest != before
}
