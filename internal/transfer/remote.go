package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"tunctl/internal/ctxtime"
)

// Dial opens a stream to a host's file server. Again says that one was lost before: it
// then waits until the host is connected again. Spare says that the stream is wanted
// only if the host allows a further one.
type Dial func(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error)

// Host is a host as one end of a copy. Close ends its channels.
type Host struct {
	dial  Dial
	lanes [lanes]lane
}

// NewHost returns a host; it dials nothing yet.
func NewHost(dial Dial) *Host {
	h := &Host{dial: dial}
	for i := range h.lanes {
		h.lanes[i].lock = ctxtime.NewMutex()
	}
	return h
}

// lane is one channel, opened at its first use and again when it was lost.
type lane struct {
	lock   ctxtime.Mutex // held also while a channel is opened, which may take long
	files  *remoteFiles  // nil: not open
	opened time.Time
	again  bool          // there was a channel before
	absent time.Time     // until then a spare channel is not tried again
	pause  time.Duration // before the next is opened
}

const (
	// spareAgain is when a host that allowed no further channel is tried again.
	spareAgain = 30 * time.Second
	// maxLosses is how many channels in a row one operation may lose. A host may end its
	// file server each time, as for a limit that the operation exceeds.
	maxLosses = 6
	// The pause before a lost channel is opened again doubles between these, until one
	// has lasted.
	firstPause, longestPause = 250 * time.Millisecond, 8 * time.Second
	lasting                  = 30 * time.Second
)

func (h *Host) use(ctx context.Context, i int, f func(files) error) error {
	return h.do(ctx, i, func(r *remoteFiles) error { return f(r) })
}

// Do calls f with the host's files, and again over a new channel when the first was lost.
func (h *Host) Do(ctx context.Context, f func(*sftp.Client) error) error {
	return h.do(ctx, 0, func(r *remoteFiles) error { return f(r.Client) })
}

func (h *Host) write(ctx context.Context, i int, f func(writable) error) error {
	return h.do(ctx, i, func(r *remoteFiles) error { return f(r) })
}

// writeBelow does nothing: the host decides what the user may write.
func (h *Host) writeBelow(string) (done func() error, err error) {
	return func() error { return nil }, nil
}

func (h *Host) do(ctx context.Context, i int, f func(*remoteFiles) error) error {
	for losses := 1; ; losses++ {
		l, r, err := h.channel(ctx, i)
		if err == nil {
			err = f(r)
			if !isLost(err) || r.isOpen() {
				return err
			}
			l.drop(ctx, r)
		}
		if ctx.Err() != nil || !isLost(err) && !errors.Is(err, errNoServer) {
			return err
		}
		if losses == maxLosses {
			return &connectError{fmt.Errorf("the host's file server stopped %d times in a row: %w", losses, err)}
		}
	}
}

// channel is the channel of a lane, or of the first one if the host allows no more.
func (h *Host) channel(ctx context.Context, i int) (*lane, *remoteFiles, error) {
	l := &h.lanes[i]
	if err := l.lock.Lock(ctx); err != nil {
		return nil, nil, err
	}
	defer l.lock.Unlock()
	if l.files != nil {
		return l, l.files, nil
	}
	if i > 0 && time.Now().Before(l.absent) {
		return h.channel(ctx, 0)
	}
	if err := ctxtime.Sleep(ctx, l.pause); err != nil {
		return nil, nil, err
	}
	stream, err := h.dial(ctx, l.again, i > 0)
	if err != nil && i > 0 && ctx.Err() == nil {
		l.absent = time.Now().Add(spareAgain)
		return h.channel(ctx, 0)
	}
	if err != nil {
		return nil, nil, &connectError{err}
	}
	l.opened = time.Now()
	l.again = true
	l.files, err = newRemoteFiles(ctx, stream)
	if err != nil {
		l.slowDownLocked()
	}
	return l, l.files, err
}

// slowDownLocked makes the pause before the next channel longer, unless this one lasted.
func (l *lane) slowDownLocked() {
	l.pause = min(max(2*l.pause, firstPause), longestPause)
	if time.Since(l.opened) >= lasting {
		l.pause = firstPause
	}
}

// drop closes a lost channel, once. When ctx has ended, Close does.
func (l *lane) drop(ctx context.Context, r *remoteFiles) {
	if l.lock.Lock(ctx) != nil {
		return
	}
	defer l.lock.Unlock()
	if l.files == r {
		l.files = nil
		l.slowDownLocked()
		_ = r.Close()
	}
}

// Close ends the host's channels, also one that is being opened.
func (h *Host) Close() error {
	for i := range h.lanes {
		l := &h.lanes[i]
		_ = l.lock.Lock(context.Background()) // which never ends
		if l.files != nil {
			_ = l.files.Close()
		}
		l.files = nil
		l.lock.Unlock()
	}
	return nil
}

func (*Host) join(dir, name string) string         { return path.Join(dir, name) }
func (*Host) split(name string) (dir, base string) { return path.Dir(name), path.Base(name) }

// connectError says that the file server cannot be reached.
type connectError struct{ error }

// Unwrap returns the cause.
func (e *connectError) Unwrap() error { return e.error }

// isLost reports whether a channel was lost, not that the file server refused.
func isLost(err error) bool { return errors.Is(err, sftp.ErrSSHFxConnectionLost) }

// remoteFiles are a host's files over one SFTP channel.
type remoteFiles struct {
	*sftp.Client
	stop func() bool

	probe       sync.Once
	ignoresMode bool // the server ignores the mode of a new file; set by probe
}

// errNoServer says that a channel was open but no file server responded.
var errNoServer = errors.New("the file server did not respond")

// packet is the size that OpenSSH's sftp uses, and every server must accept.
const packet = 32 << 10

func newRemoteFiles(ctx context.Context, stream io.ReadWriteCloser) (*remoteFiles, error) {
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	c, err := sftp.NewClientPipe(stream, &ownerOnly{WriteCloser: stream}, sftp.MaxPacket(packet), sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(64))
	if err != nil {
		stop()
		_ = stream.Close()
		return nil, fmt.Errorf("%w: %w", errNoServer, err)
	}
	return &remoteFiles{Client: c, stop: stop}, nil
}

// Close ends the channel.
func (r *remoteFiles) Close() error {
	r.stop()
	return r.Client.Close()
}

// isOpen reports whether the channel is not the one that was lost: a copy between two hosts has
// another.
func (r *remoteFiles) isOpen() bool {
	_, err := r.Getwd()
	return !isLost(err)
}

func (r *remoteFiles) Mkdir(name string, mode fs.FileMode) (existed bool, err error) {
	err = r.Client.Mkdir(name)
	if err == nil {
		return false, r.Chmod(name, 0o700) // before anything is in it
	}
	if isLost(err) {
		return false, err
	}
	// For a folder that exists, servers only report "failure".
	there, e := r.Stat(name)
	if e != nil || !there.IsDir() {
		return false, err
	}
	if narrow := narrower(there.Mode(), mode); narrow != there.Mode().Perm() {
		_ = r.Chmod(name, narrow) // fails for another's folder: a warning follows at the end
	}
	return true, nil
}

// Replace renames as POSIX does if the server can, else it removes the other file first.
func (r *remoteFiles) Replace(name, other string) error {
	if _, can := r.HasExtension("posix-rename@openssh.com"); can {
		return r.PosixRename(name, other)
	}
	if err := r.Remove(other); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return r.Rename(name, other)
}

// Full asks for the free space: for a failed write, servers only report "failure".
func (r *remoteFiles) Full(name string) bool {
	st, err := r.StatVFS(path.Dir(name))
	return err == nil && st.Bavail*st.Frsize < chunkSize
}

func (r *remoteFiles) Open(name string) (handle, error) { return r.Client.Open(name) }

// Create checks the mode of the first new file: a server that respects the mode does so
// for all.
func (r *remoteFiles) Create(name string) (handle, error) {
	f, err := createNew(
		func() (*sftp.File, error) { return r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) },
		func() error { return r.Remove(name) },
	)
	if err != nil {
		return nil, err
	}
	r.probe.Do(func() { r.ignoresMode = isShared(f) })
	if r.ignoresMode {
		if err := f.Chmod(0o600); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

// Reopen cannot make the server refuse links: who may rename files in the folder can
// still put one there between the two requests.
func (r *remoteFiles) Reopen(name string) (handle, error) {
	info, err := r.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotAFile
	}
	return r.OpenFile(name, os.O_RDWR)
}

// isShared reports whether others than the owner have a permission, or the mode is
// unknown.
func isShared(f *sftp.File) bool {
	const others = 0o077
	info, err := f.Stat()
	return err != nil || info.Mode().Perm()&others != 0
}

// List returns the names in a host's folder that begin with prefix, over a stream to
// its file server, which it closes. Folders, and links to one, end in a slash.
func List(ctx context.Context, stream io.ReadWriteCloser, dir, prefix string) ([]string, error) {
	files, err := newRemoteFiles(ctx, stream)
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }()
	infos, err := files.ReadDirContext(ctx, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, info := range infos {
		name := info.Name()
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err := files.Stat(path.Join(dir, name)); err == nil {
				info = target
			}
		}
		if info.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	return names, nil
}

// ownerOnly writes to a file server and makes each new file for its owner alone. The
// SFTP library sends no mode with a new file, and the server would use its umask: who
// opened the file before its mode was set could read what is written later.
type ownerOnly struct {
	io.WriteCloser
	left int // of the current packet
}

// The numbers of draft-ietf-secsh-filexfer-02.
const (
	sftpOpen            = 3
	sftpCreate          = 0x08 // a flag of open
	sftpAttrPermissions = 0x04
)

// Write changes packets that create a file. The library writes each packet from its
// beginning. It does not say by its errors that a write has failed, so this does.
func (w *ownerOnly) Write(p []byte) (int, error) {
	begins := w.left == 0 && len(p) >= 4
	if begins {
		w.left = 4 + int(binary.BigEndian.Uint32(p))
	}
	w.left = max(0, w.left-len(p))
	q := p
	if begins && w.left == 0 && createsFile(p) {
		const mode = 0o600
		q = binary.BigEndian.AppendUint32(nil, uint32(len(p)))
		q = append(q, p[4:len(p)-4]...)
		q = binary.BigEndian.AppendUint32(q, sftpAttrPermissions)
		q = binary.BigEndian.AppendUint32(q, mode)
	}
	if n, err := w.WriteCloser.Write(q); err != nil {
		return min(n, len(p)), fmt.Errorf("%w: %w", sftp.ErrSSHFxConnectionLost, err)
	}
	return len(p), nil
}

// createsFile reports whether a packet creates a file without a mode: length, type, id,
// length of the path, path, flags, and no attributes.
func createsFile(p []byte) bool {
	const path = 4 + 1 + 4 + 4
	if len(p) < path+8 || p[4] != sftpOpen || len(p) != path+int(binary.BigEndian.Uint32(p[path-4:]))+8 {
		return false
	}
	end := p[len(p)-8:]
	return binary.BigEndian.Uint32(end)&sftpCreate != 0 && binary.BigEndian.Uint32(end[4:]) == 0
}
