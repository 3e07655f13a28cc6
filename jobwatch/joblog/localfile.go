package joblog

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"tunctl/jobwatch/remote"
)

// burstTime is how long to collect changes of a file before reading it.
const burstTime = 250 * time.Millisecond

// watchFolders makes the file system wake the Follower, if the files are on this computer.
func (f *Follower) watchFolders() (stop func()) {
	if _, here := f.sh.Runner.(remote.Local); !here {
		return func() {}
	}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Debug("the file system reports no changes", "err", err)
		return func() {}
	}
	for _, s := range f.sources {
		if err := events.Add(folderOf(s.pattern)); err != nil {
			f.log.Debug("the file system reports no changes", "path", s.pattern, "err", err)
		}
	}
	var done sync.WaitGroup
	done.Go(func() { f.wakeOnChange(events) })
	return func() {
		_ = events.Close()
		done.Wait()
	}
}

// wakeOnChange wakes the Follower shortly after each burst of changes, until events is
// closed.
func (f *Follower) wakeOnChange(events *fsnotify.Watcher) {
	var burst <-chan time.Time
	for {
		select {
		case _, open := <-events.Events:
			if !open {
				return
			}
			if burst == nil {
				burst = time.After(burstTime)
			}
		case _, open := <-events.Errors: // an overflow: polling finds what was missed
			if !open {
				return
			}
		case <-burst:
			burst = nil
			f.wakeUp()
		}
	}
}

// folderOf is the folder in which a file will appear: that of the pattern before its first
// wildcard.
func folderOf(pattern string) string {
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			pattern = filepath.Join(home, rest)
		}
	}
	if i := strings.IndexAny(pattern, globSpecial); i >= 0 {
		pattern = pattern[:i] + "x"
	}
	return filepath.Dir(pattern)
}
