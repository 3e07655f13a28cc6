package transfer

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Place is one end of a copy: this computer, or a host.
type Place interface {
	paths
	// use calls f with the place's files, over one of several connections to them, and
	// calls it again on a new connection when that one was lost.
	use(ctx context.Context, lane int, f func(files) error) error
	// below is the place as a target, where everything is written below one folder.
	// What is done with it calls done.
	below(dir string) (to target, done func() error, err error)
}

// target is where a copy writes. There is no other way to write.
type target interface {
	paths
	// write is Place's use, with files that can be written.
	write(ctx context.Context, lane int, f func(writable) error) error
}

// paths are how a place writes them.
type paths interface {
	join(dir, name string) string
	split(path string) (dir, base string)
}

// lanes is how many channels of a host's connection are used at once.
const lanes = 4

// files are the files of a place over one connection.
type files interface {
	readable
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.FileInfo, error)
	Glob(pattern string) ([]string, error)
	ReadLink(name string) (string, error)
}

// readable are files whose names are known.
type readable interface {
	Stat(name string) (fs.FileInfo, error)
	Open(name string) (source, error)
}

// writable are files of a target.
type writable interface {
	readable
	Lstat(name string) (fs.FileInfo, error)
	Symlink(target, name string) error
	// Mkdir makes a folder for its owner alone. One that is there is closed to those
	// whom its mode to be does not let in.
	Mkdir(name string, mode fs.FileMode) error
	// Create opens a file for writing, and makes it for its owner alone where there is
	// none. A host's file that is open to others is closed to them.
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
