package transfer

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Place is one end of a copy: this computer, or a host.
type Place interface {
	// use calls f with the place's files, over one of several connections to them, and
	// calls it again on a new connection when that one was lost.
	use(ctx context.Context, lane int, f func(files) error) error
	join(dir, name string) string
	split(path string) (dir, base string)
}

// lanes is how many channels of a host's connection are used at once.
const lanes = 4

// files are the files of a place over one connection.
type files interface {
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.FileInfo, error)
	Glob(pattern string) ([]string, error)
	ReadLink(name string) (string, error)
	Symlink(target, name string) error
	Mkdir(name string) error
	Open(name string) (source, error)
	// Create opens a file for writing, and makes it where there is none.
	Create(name string) (sink, error)
	// Replace gives a file another's name, and takes that one's place.
	Replace(name, other string) error
	Remove(name string) error
	SetMode(name string, mode fs.FileMode) error
	SetTimes(name string, modified time.Time) error
	// Full reports whether there is no room left beside a file, as far as can be known.
	Full(name string) bool
}

type source interface {
	io.ReaderAt
	io.Closer
}

type sink interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}
