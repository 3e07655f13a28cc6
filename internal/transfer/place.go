package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Place is one end of a copy: this computer, or a host.
type Place interface {
	// use calls f with the place's files over one of its connections, and calls it again
	// over a new one when that was lost.
	use(ctx context.Context, lane int, f func(files) error) error
	// write is use, with files that can be written. Nothing else writes.
	write(ctx context.Context, lane int, f func(writable) error) error
	// writeBelow is called before the first write: all are below one folder. The caller
	// calls done at the end.
	writeBelow(dir string) (done func() error, err error)
	join(dir, name string) string
	split(path string) (dir, base string)
}

// lanes is how many channels of a host's connection a copy uses.
const lanes = 4

// openable are files whose names are known.
type openable interface {
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Open(name string) (handle, error)
}

// files are the files of a place over one connection.
type files interface {
	openable
	// ReadDir returns with an error what it has listed so far.
	ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error)
	Glob(pattern string) ([]string, error)
	ReadLink(name string) (string, error)
	// RealPath is the absolute path of a file, without links.
	RealPath(name string) (string, error)
}

// writable are the files of a target, whose names are known.
type writable interface {
	openable
	Symlink(target, name string) error
	// Mkdir creates a folder for its owner alone. It removes the permissions of an
	// existing one that mode does not have.
	Mkdir(name string, mode fs.FileMode) (existed bool, err error)
	// Create creates a file for its owner alone. It removes what has the name: another
	// user of a shared folder may have put a link there, which must not be followed.
	Create(name string) (handle, error)
	// Reopen opens a file that Create has created, for writing.
	Reopen(name string) (handle, error)
	// Replace renames a file, also to a name that exists.
	Replace(name, other string) error
	Remove(name string) error
	SetMode(name string, mode fs.FileMode) error
	SetTimes(name string, modified time.Time) error
	// Full reports whether the file system of a file is full, as far as it can be known.
	Full(name string) bool
}

// handle is an open file.
type handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// createNew creates a file under a name that nothing has; what had it is removed.
func createNew[F any](create func() (F, error), remove func() error) (F, error) {
	f, err := create()
	if err == nil || isLost(err) {
		return f, err
	}
	switch e := remove(); { // for a name that exists, servers only report "failure"
	case errors.Is(e, fs.ErrNotExist):
		return f, err
	case e != nil:
		return f, e
	}
	return create()
}
