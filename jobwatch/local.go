package jobwatch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Local is a Runner on this computer, for an agent that runs on the cluster itself.
// A Follower that reads through it is also told of changes by the file system; it
// polls beside that, since network file systems tell of none.
type Local struct{}

// Run implements Runner.
func (Local) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	res := Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		res.Exit = exit.ExitCode()
		return res, nil
	}
	return res, err
}

// settleTime is how long to gather changes of a file before reading it.
const settleTime = 250 * time.Millisecond

// watchFolders has the file system wake the Follower, where the files are here.
func (f *Follower) watchFolders() (stop func()) {
	if _, here := f.sh.run.(Local); !here {
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

// wakeOnChange wakes the Follower a little after each burst of changes, until events is
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
				burst = time.After(settleTime)
			}
		case _, open := <-events.Errors: // an overflow: polling sees what was missed
			if !open {
				return
			}
		case <-burst:
			burst = nil
			signal(f.wake)
		}
	}
}

// folderOf is the folder in which a file will appear: the part of the pattern before
// its first wildcard.
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
