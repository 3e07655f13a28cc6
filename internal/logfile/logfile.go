// Package logfile writes a log to files of limited size. It knows no format.
package logfile

import (
	"fmt"
	"os"
	"sync"
)

// File is a log. When the file at Path is full it becomes Path.1, what was that Path.2, and so
// on; the oldest is replaced. Lines may come from any goroutine.
type File struct {
	Path string
	Max  int64 // bytes in a file, but for one line that is longer
	Old  int   // files besides the one at Path

	mu   sync.Mutex
	file *os.File // nil before the first line
}

// Write appends a line. Other processes may append to the file, too.
func (f *File) Write(line []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info, err := f.file.Stat(); err == nil && info.Size() > 0 && info.Size()+int64(len(line)) > f.Max {
		_ = f.file.Close()
		f.file = nil
		f.rotate()
	}
	if f.file == nil {
		if f.file, err = os.OpenFile(f.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return 0, err
		}
	}
	return f.file.Write(line)
}

// rotate makes room: a file that cannot be renamed, as on Windows while another process has it open,
// is emptied.
func (f *File) rotate() {
	for i := f.Old; i > 1; i-- {
		_ = os.Rename(fmt.Sprintf("%s.%d", f.Path, i-1), fmt.Sprintf("%s.%d", f.Path, i)) // there may be none yet
	}
	if os.Rename(f.Path, f.Path+".1") != nil {
		_ = os.Truncate(f.Path, 0)
	}
}

// Close closes the file, after the last line.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
