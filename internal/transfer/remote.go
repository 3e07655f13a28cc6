package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"tunctl/internal/ctxtime"
)

// Dial opens a stream to a host's file server. Again says that one was lost before:
// it then waits until the host is connected again. Spare says that the stream is
// wanted only if the host allows it besides those there are.
type Dial func(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error)

// Host is a host as one end of a copy. Close ends its channels.
type Host struct {
	dial  Dial
	pace  *pace
	lanes [lanes]lane
}

// NewHost returns a host; nothing is dialled yet. Without a ping, a copy takes all of
// the link that it can get.
func NewHost(dial Dial, ping Ping) *Host { return &Host{dial: dial, pace: newPace(ping)} }

// lane is one channel, made at its first use and again when it was lost.
type lane struct {
	mu     sync.Mutex
	files  *remoteFiles
	opened time.Time
	lost   bool          // there was one
	pause  time.Duration // before the next
	absent time.Time     // until then a spare one is not asked for again
}

const (
	// spareAgain is how long a host that allowed no further channel is not asked again.
	spareAgain = 30 * time.Second
	// maxLosses is how many channels in a row one piece of work may lose. A host may end
	// its file server each time, as for a limit that the work exceeds.
	maxLosses = 6
	// The pause before a lost channel is made again doubles between these, until one
	// has lasted.
	firstPause, longestPause = 250 * time.Millisecond, 8 * time.Second
	lasting                  = 30 * time.Second
)

func (h *Host) use(ctx context.Context, i int, f func(files) error) error {
	return h.do(ctx, i, func(r *remoteFiles) error { return f(r) })
}

func (h *Host) write(ctx context.Context, i int, f func(writable) error) error {
	return h.do(ctx, i, func(r *remoteFiles) error { return f(r) })
}

// below is the host itself: what a person may write there is for the host to say.
func (h *Host) below(string) (to target, done func() error, err error) {
	return h, func() error { return nil }, nil
}

func (h *Host) do(ctx context.Context, i int, f func(*remoteFiles) error) error {
	for losses := 1; ; losses++ {
		l, r, err := h.channel(ctx, i)
		if err == nil {
			err = f(r)
			if lost, ok := errors.AsType[*lostError](err); !ok || lost.files != r {
				return err
			}
			l.drop(r)
		}
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil && !isLost(err) && !errors.Is(err, errNoServer):
			return err
		case losses == maxLosses:
			return &connectError{fmt.Errorf("the host's file server stopped %d times in a row: %w", losses, err)}
		}
	}
}

// channel is the lane's channel; the first one's where the host allows no more.
func (h *Host) channel(ctx context.Context, i int) (*lane, *remoteFiles, error) {
	l := &h.lanes[i]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != nil {
		return l, l.files, nil
	}
	if i > 0 && time.Now().Before(l.absent) {
		return h.channel(ctx, 0)
	}
	if err := ctxtime.Sleep(ctx, l.pause); err != nil {
		return nil, nil, err
	}
	stream, err := h.dial(ctx, l.lost, i > 0)
	if err != nil && i > 0 && ctx.Err() == nil {
		l.absent = time.Now().Add(spareAgain)
		return h.channel(ctx, 0)
	}
	if err != nil {
		return nil, nil, &connectError{err}
	}
	l.opened, l.lost = time.Now(), true
	l.files, err = newRemoteFiles(ctx, stream)
	if err != nil {
		l.slowDown()
	}
	return l, l.files, err
}

// slowDown has the next channel wait for longer than this one did, unless this one
// lasted.
func (l *lane) slowDown() {
	l.pause = min(max(2*l.pause, firstPause), longestPause)
	if time.Since(l.opened) >= lasting {
		l.pause = firstPause
	}
}

func (l *lane) drop(r *remoteFiles) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == r {
		_ = r.Close()
		l.files = nil
		l.slowDown()
	}
}

// Close ends the host's channels.
func (h *Host) Close() error {
	for i := range h.lanes {
		l := &h.lanes[i]
		l.mu.Lock()
		if l.files != nil {
			_ = l.files.Close()
			l.files = nil
		}
		l.mu.Unlock()
	}
	return nil
}

func (*Host) join(dir, name string) string         { return path.Join(dir, name) }
func (*Host) split(name string) (dir, base string) { return path.Dir(name), path.Base(name) }

// connectError says that there is no way to the file server.
type connectError struct{ err error }

// Error implements error.
func (e *connectError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *connectError) Unwrap() error { return e.err }

// lostError says that the channel was lost, not that the file server refused.
type lostError struct {
	files *remoteFiles
	err   error
}

// Error implements error.
func (e *lostError) Error() string { return "the connection was lost: " + e.err.Error() }

// Unwrap returns the cause.
func (e *lostError) Unwrap() error { return e.err }

// remoteFiles are a host's files over one SFTP channel.
type remoteFiles struct {
	c    *sftp.Client
	stop func() bool

	probe  sync.Once
	widens bool // the server takes no mode with a new file; after probe
}

// errNoServer says that a channel was there but no file server spoke on it.
var errNoServer = errors.New("the file server did not respond")

// packet is what OpenSSH's own sftp sends at once, and every server must take.
const packet = 32 << 10

func newRemoteFiles(ctx context.Context, stream io.ReadWriteCloser) (*remoteFiles, error) {
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	c, err := sftp.NewClientPipe(stream, &ownerOnly{WriteCloser: stream}, sftp.MaxPacket(packet), sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(64))
	if err != nil {
		stop()
		_ = stream.Close()
		return nil, fmt.Errorf("%w: %w", errNoServer, err)
	}
	return &remoteFiles{c: c, stop: stop}, nil
}

// Close ends the channel.
func (r *remoteFiles) Close() error {
	r.stop()
	return r.c.Close()
}

// judge tells a lost channel from a file server's answer.
func (r *remoteFiles) judge(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, answer := errors.AsType[*sftp.StatusError](err); answer {
		return err
	}
	if _, already := errors.AsType[*lostError](err); already {
		return err
	}
	return &lostError{r, err}
}

func (r *remoteFiles) Stat(name string) (fs.FileInfo, error) {
	info, err := r.c.Stat(name)
	return info, r.judge(err)
}

// Lstat tells of a link itself.
func (r *remoteFiles) Lstat(name string) (fs.FileInfo, error) {
	info, err := r.c.Lstat(name)
	return info, r.judge(err)
}

func (r *remoteFiles) ReadDir(name string) ([]fs.FileInfo, error) {
	infos, err := r.c.ReadDir(name)
	return infos, r.judge(err)
}

func (r *remoteFiles) Glob(pattern string) ([]string, error) {
	names, err := r.c.Glob(pattern)
	if errors.Is(err, path.ErrBadPattern) {
		return nil, err
	}
	return names, r.judge(err)
}

func (r *remoteFiles) ReadLink(name string) (string, error) {
	target, err := r.c.ReadLink(name)
	return target, r.judge(err)
}

func (r *remoteFiles) Symlink(target, name string) error { return r.judge(r.c.Symlink(target, name)) }
func (r *remoteFiles) Remove(name string) error          { return r.judge(r.c.Remove(name)) }

func (r *remoteFiles) SetMode(name string, mode fs.FileMode) error {
	return r.judge(r.c.Chmod(name, mode.Perm()))
}

func (r *remoteFiles) SetTimes(name string, t time.Time) error {
	return r.judge(r.c.Chtimes(name, t, t))
}

func (r *remoteFiles) Mkdir(name string, mode fs.FileMode) error {
	err := r.judge(r.c.Mkdir(name))
	if err == nil {
		return r.SetMode(name, 0o700) // before anything is in it
	}
	if isLost(err) {
		return err
	}
	// Servers only say "failure" of a folder that is there.
	there, e := r.c.Stat(name)
	if e != nil || !there.IsDir() {
		return err
	}
	if narrow := narrower(there.Mode(), mode); narrow != there.Mode().Perm() {
		_ = r.SetMode(name, narrow) // another's folder: at the end a warning says so
	}
	return nil
}

// Replace renames as POSIX does where the server can, else it must remove first.
func (r *remoteFiles) Replace(name, other string) error {
	if _, can := r.c.HasExtension("posix-rename@openssh.com"); can {
		return r.judge(r.c.PosixRename(name, other))
	}
	if err := r.c.Remove(other); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r.judge(err)
	}
	return r.judge(r.c.Rename(name, other))
}

// Full asks the server for the room left, since of a write it only says "failure".
func (r *remoteFiles) Full(name string) bool {
	st, err := r.c.StatVFS(path.Dir(name))
	return err == nil && st.Bavail*st.Frsize < chunkSize
}

func (r *remoteFiles) Open(name string) (source, error) { return r.open(name, os.O_RDONLY) }

// Create looks at the first file that it makes: a server that takes the mode which it is
// told for a new file does so for all. Of a file that is there it looks at each.
func (r *remoteFiles) Create(name string) (sink, error) {
	f, err := r.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	isNew := err == nil
	if err != nil && !isLost(err) { // servers only say "failure" of a file that is there
		f, err = r.open(name, os.O_RDWR|os.O_CREATE)
	}
	if err != nil {
		return nil, err
	}
	var wide bool
	if isNew {
		r.probe.Do(func() { r.widens = f.isWide() })
		wide = r.widens
	} else {
		wide = f.isWide()
	}
	if wide {
		if err := r.judge(f.f.Chmod(0o600)); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

func (r *remoteFiles) open(name string, flags int) (*remoteFile, error) {
	f, err := r.c.OpenFile(name, flags)
	if err != nil {
		return nil, r.judge(err)
	}
	return &remoteFile{f, r}, nil
}

// remoteFile is an open file of a host.
type remoteFile struct {
	f *sftp.File
	r *remoteFiles
}

// isWide reports whether others than the owner can do anything with the file, or that
// cannot be known.
func (f *remoteFile) isWide() bool {
	const others = 0o077
	info, err := f.f.Stat()
	return err != nil || info.Mode().Perm()&others != 0
}

// ReadAt implements io.ReaderAt.
func (f *remoteFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	return n, f.r.judge(err)
}

// WriteAt implements io.WriterAt.
func (f *remoteFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(p, off)
	return n, f.r.judge(err)
}

// Truncate cuts the file.
func (f *remoteFile) Truncate(size int64) error { return f.r.judge(f.f.Truncate(size)) }

// Close implements io.Closer.
func (f *remoteFile) Close() error { return f.r.judge(f.f.Close()) }
