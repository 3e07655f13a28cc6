//go:build !windows

package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/sftp"
)

// stdio is a program's input and output.
type stdio struct {
	io.Reader
	io.WriteCloser
	stop func()
}

// Close ends the program.
func (s stdio) Close() error {
	s.stop()
	return s.WriteCloser.Close()
}

// realServer starts OpenSSH's own file server in a folder.
func realServer(t *testing.T, dir, limits string) (io.ReadWriteCloser, error) {
	t.Helper()
	program := ""
	for _, p := range []string{"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server"} {
		if _, err := os.Stat(p); err == nil {
			program = p
		}
	}
	if program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("no sftp-server of OpenSSH, and CI promises one")
		}
		t.Skip("NOT TRIED: no sftp-server of OpenSSH")
	}
	cmd := exec.Command("sh", "-c", "umask 022; "+limits+" cd "+dir+" && exec "+program)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	wait := sync.OnceFunc(func() { _ = cmd.Wait() })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		wait()
	})
	return stdio{out, in, func() { _ = cmd.Process.Kill() }}, nil
}

// watched is a stream to a file server; look is called before each packet.
type watched struct {
	io.ReadWriteCloser
	look func()
}

func (w watched) Write(p []byte) (int, error) {
	w.look()
	return w.ReadWriteCloser.Write(p)
}

func TestNothingIsOpenToOthersOnItsWayToAHost(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		t.Run(fmt.Sprintf("interrupted %v", interrupted), func(t *testing.T) {
			there, here := t.TempDir(), t.TempDir()
			private := filepath.Join(here, "private")
			file(t, filepath.Join(private, "notes"), notesSize)
			file(t, filepath.Join(private, "sub", "more"), 2*notesSize)
			file(t, filepath.Join(private, "large"), 8*chunkSize)
			for path, mode := range map[string]fs.FileMode{"notes": 0o644, "sub": 0o755, "sub/more": 0o600, "large": 0o600, "": 0o700} {
				if err := os.Chmod(filepath.Join(private, path), mode); err != nil {
					t.Fatal(err)
				}
			}
			// One that is there already is closed before anything is put into it.
			if err := os.MkdirAll(filepath.Join(there, "private"), 0o755); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var packets atomic.Int64
			look := func() {
				for _, name := range openToOthers(filepath.Join(there, "private")) {
					t.Errorf("open to others: %s", name)
				}
				if packets.Add(1) == 150 && interrupted {
					cancel()
				}
			}
			stream, err := realServer(t, there, "")
			if err != nil {
				t.Fatal(err)
			}
			s := newServer(t)
			s.stream = watched{stream, look}
			h := NewHost(s.dial)
			err = Copy(ctx, Options{
				From: Local(), Sources: []string{private}, To: h, Target: ".", Progress: new(Progress),
				Warn: func(format string, args ...any) { t.Errorf(format, args...) },
			})
			if (err != nil) != interrupted {
				t.Errorf("copied: %v", err)
			}
			_ = h.Close()
			if look(); packets.Load() < 150 {
				t.Errorf("only %d packets", packets.Load())
			}
			for path, want := range map[string]fs.FileMode{"notes": 0o644, "sub": 0o755, "sub/more": 0o600, "large": 0o600, "": 0o700} {
				info, err := os.Stat(filepath.Join(there, "private", path))
				if !interrupted && (err != nil || info.Mode().Perm() != want) {
					t.Errorf("in the end %q is %v, want %v; %v", path, info.Mode(), want, err)
				}
			}
		})
	}
}

// notesSize is the size of the one file that others may read where they can reach it.
const notesSize = 1000

// openToOthers are the parts and files that are wider than their sources, and the folder
// itself when it has something in it.
func openToOthers(dir string) (open []string) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // renamed meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // too
		}
		allowed := fs.FileMode(0o600)
		switch {
		case d.IsDir() && name == dir:
			allowed = 0o700
			if entries, _ := os.ReadDir(dir); len(entries) == 0 {
				allowed = 0o777
			}
		case d.IsDir():
			allowed = 0o755
		case info.Size() == notesSize:
			allowed = 0o644
		}
		if info.Mode().Perm()&^allowed != 0 {
			open = append(open, fmt.Sprintf("%s, %v, %d bytes", name, info.Mode(), info.Size()))
		}
		return nil
	})
	return open
}

// careless is a file server that makes files as it likes, and writes down what is done to
// them.
type careless struct {
	hostile
	made fs.FileMode // of the files that it makes
	mu   *sync.Mutex
	done *[]string
}

func (c careless) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.done = append(*c.done, what)
}

func (c careless) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	return entries{entry{r.Filepath, c.made, 0}}, nil
}

func (c careless) Filecmd(r *sftp.Request) error {
	c.note(fmt.Sprintf("%s %v", r.Method, r.Attributes().FileMode().Perm()))
	return nil
}

func (c careless) Filewrite(*sftp.Request) (io.WriterAt, error) { return c, nil }

// WriteAt implements io.WriterAt.
func (c careless) WriteAt(p []byte, _ int64) (int, error) {
	c.note("write")
	return len(p), nil
}

func TestAServerThatTakesNoModeIsToldItBeforeAnythingIsWritten(t *testing.T) {
	for _, test := range []struct {
		made fs.FileMode
		want string
	}{
		{0o644, "Setstat -rw-------, write, Setstat -rw-------, write"},
		{0o600, "write, write"},
	} {
		c := careless{made: test.made, mu: new(sync.Mutex), done: new([]string)}
		s := newServer(t)
		end := s.serve(sftp.Handlers{FileGet: c, FilePut: c, FileCmd: c, FileList: c})
		r, err := newRemoteFiles(t.Context(), s.stream)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"part", "other"} {
			f, err := r.Create(part)
			if err == nil {
				_, err = f.WriteAt([]byte("secret"), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
		_ = r.Close()
		end()
		if got := strings.Join(*c.done, ", "); got != test.want {
			t.Errorf("%v: it did %s, want %s", test.made, got, test.want)
		}
	}
}

// TestALinkInPlaceOfAPartIsNotWrittenThrough has a link, which another user of a shared
// folder has put where the part will be.
func TestALinkInPlaceOfAPartIsNotWrittenThrough(t *testing.T) {
	synctest.Test(t, linkInPlaceOfAPart)
}

func linkInPlaceOfAPart(t *testing.T) {
	for _, size := range []int{0, 1000, 3 * chunkSize} {
		for _, resume := range []bool{false, true} {
			for _, up := range []bool{false, true} {
				s := newServer(t)
				s.exact = true
				dir := t.TempDir()
				source, shared := filepath.Join(dir, "results"), filepath.Join(dir, "shared")
				victim := filepath.Join(shared, "authorized_keys") // also within what a download may write
				data, kept := file(t, source, size), file(t, victim, size)
				info, err := os.Stat(source)
				if err != nil {
					t.Fatal(err)
				}
				o := Options{From: Local(), Sources: []string{source}, Target: shared, Resume: resume}
				if !up {
					o.From, o.To = nil, Local()
				}
				part := (&copier{Options: Options{To: Local()}}).partOf(job{to: filepath.Join(shared, "results"), info: info})
				symlink(t, "authorized_keys", part)
				if err := os.Chmod(victim, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := s.copy(o); err != nil {
					t.Errorf("%d bytes, resume %v, up %v: %v", size, resume, up, err)
				}
				same(t, victim, kept)
				same(t, filepath.Join(shared, "results"), data)
				if now, err := os.Stat(victim); err != nil || now.Mode().Perm() != 0o600 {
					t.Errorf("%d bytes, resume %v, up %v: its mode is %v, %v", size, resume, up, now.Mode(), err)
				}
				if there, err := os.Lstat(filepath.Join(shared, "results")); err != nil || !there.Mode().IsRegular() {
					t.Errorf("%d bytes, resume %v, up %v: the copy is %v, %v", size, resume, up, there.Mode(), err)
				}
			}
		}
	}
}

func TestAPartThatBecameALinkIsNotReopened(t *testing.T) {
	s := newServer(t)
	file(t, s.path("victim"), 10)
	symlink(t, "victim", s.path("part"))
	for _, to := range []Place{localBelow(t, s.dir), s.host()} {
		err := to.write(t.Context(), 0, func(to writable) error {
			_, err := to.Reopen(s.path("part"))
			return err
		})
		if !errors.Is(err, errNotAFile) {
			t.Errorf("%T: %v", to, err)
		}
	}
}

func TestOwnerOnlyPackets(t *testing.T) {
	create := []byte("\x00\x00\x00\x12\x03\x00\x00\x00\x07\x00\x00\x00\x01a\x00\x00\x00\x0a\x00\x00\x00\x00")
	withMode := "\x00\x00\x00\x16\x03\x00\x00\x00\x07\x00\x00\x00\x01a\x00\x00\x00\x0a\x00\x00\x00\x04\x00\x00\x01\x80"
	reading := bytes.Replace(create, []byte("\x0a\x00\x00\x00\x00"), []byte("\x01\x00\x00\x00\x00"), 1)
	write := append([]byte("\x00\x00\x00\x1b\x06\x00\x00\x00\x08"), create...) // a file that looks like such a packet
	var out sinkhole
	w := &ownerOnly{WriteCloser: &out}
	for _, p := range [][]byte{create, reading, write[:9], create, create} {
		if n, err := w.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := withMode + string(reading) + string(write) + withMode; out.String() != want {
		t.Errorf("sent %q, want %q", out.String(), want)
	}
}

// sinkhole takes everything.
type sinkhole struct{ bytes.Buffer }

func (*sinkhole) Close() error { return nil }

func TestAFIFOIsNeitherReadNorWritten(t *testing.T) {
	s := newServer(t)
	here := t.TempDir()
	fifo := filepath.Join(here, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	file(t, s.path("a"), 10)
	if err := s.copy(Options{Sources: []string{"a"}, To: Local(), Target: fifo}); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
		t.Errorf("as a target: %v", err)
	}
	if info, err := os.Lstat(fifo); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("it is now %v, %v", info, err)
	}
	// It took a file's place after that was listed.
	if _, err := (localFiles{}).Open(fifo); !errors.Is(err, errNotAFile) {
		t.Errorf("as a source: %v", err)
	}
	if err := localBelow(t, here).write(t.Context(), 0, func(to writable) error {
		_, err1 := to.Reopen(fifo)
		_, err2 := to.Open(fifo)
		if !errors.Is(err1, errNotAFile) || !errors.Is(err2, errNotAFile) {
			t.Errorf("as a part: %v, %v", err1, err2)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestHostServerEndsEachTime(t *testing.T) {
	there, here := t.TempDir(), t.TempDir()
	large := filepath.Join(here, "large")
	file(t, large, 8*chunkSize)
	var servers atomic.Int64
	h := NewHost(func(_ context.Context, _, spare bool) (io.ReadWriteCloser, error) {
		if spare {
			return nil, errors.New("no session to spare")
		}
		servers.Add(1)
		return realServer(t, there, "ulimit -f 4096;") // the system ends it when it writes more
	})
	defer func() { _ = h.Close() }()
	err := Copy(t.Context(), Options{From: Local(), Sources: []string{large}, To: h, Target: "large", Progress: new(Progress), Warn: func(string, ...any) {}})
	if err == nil || !strings.Contains(err.Error(), "file server stopped 6 times in a row") {
		t.Errorf("it said %v", err)
	}
	if n := servers.Load(); n > 2*maxLosses {
		t.Errorf("%d file servers were started", n)
	}
}

func TestHostLostChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		h := NewHost(func(context.Context, bool, bool) (io.ReadWriteCloser, error) {
			at = append(at, time.Since(begun))
			near, far := net.Pipe()
			_ = far.Close()
			return near, nil
		})
		err := h.use(t.Context(), 0, func(files) error { return nil })
		want := []time.Duration{0, 250, 750, 1750, 3750, 7750}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if fmt.Sprint(at) != fmt.Sprint(want) || !errors.Is(err, errNoServer) {
			t.Errorf("opened at %v, want %v; %v", at, want, err)
		}
	})
}
