package transfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/sftp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a host's file server in a folder, whose connections can be cut.
type server struct {
	t   *testing.T
	dir string

	mu     sync.Mutex
	conns  []net.Conn
	limit  int // how many channels it allows; 0: any
	refuse error
	dials  atomic.Int32
	wg     sync.WaitGroup
	// cutAfter cuts each new connection after so many bytes came in, so many times.
	cutAfter int64
	cuts     int
	instead  func() // of cutting
	redial   func() // is called before a lost channel is opened again; nil: it is at once
	// exact has paths taken as they are; else they begin in dir, links' targets too.
	exact bool
	// stream is the only channel there is, to another file server; nil: to ours.
	stream io.ReadWriteCloser
}

func newServer(t *testing.T) *server {
	s := &server{t: t, dir: t.TempDir()}
	t.Cleanup(s.wg.Wait)
	return s
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *server) dial(_ context.Context, again, spare bool) (io.ReadWriteCloser, error) {
	if again && s.redial != nil {
		s.redial()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	if s.stream != nil {
		if spare || s.dials.Add(1) > 1 {
			return nil, errors.New("no more channels")
		}
		return s.stream, nil
	}
	if spare && s.limit > 0 && len(s.conns) >= s.limit {
		return nil, errors.New("no session to spare")
	}
	s.dials.Add(1)
	near, far := net.Pipe()
	s.conns = append(s.conns, far)
	var stream io.ReadWriteCloser = far
	if s.cuts > 0 {
		s.cuts--
		stream = &cutting{Conn: far, left: s.cutAfter, cut: s.instead}
	}
	s.wg.Go(func() {
		options := []sftp.ServerOption{sftp.WithServerWorkingDirectory(s.dir)}
		if s.exact {
			options = nil
		}
		srv, err := sftp.NewServer(stream, options...)
		if err != nil {
			s.t.Error(err)
			return
		}
		_ = srv.Serve()
		_ = far.Close()
	})
	return near, nil
}

// cutting is a connection that ends after so many bytes.
type cutting struct {
	net.Conn
	left int64
	cut  func()
}

func (c *cutting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch c.left -= int64(n); {
	case c.left >= 0:
	case c.cut != nil:
		c.cut()
	default:
		_ = c.Close()
	}
	return n, err
}

func (s *server) copy(o Options) error {
	h := NewHost(s.dial)
	defer func() { _ = h.Close() }()
	if o.From == nil {
		o.From = h
	}
	if o.To == nil {
		o.To = h
	}
	if o.Progress == nil {
		o.Progress = new(Progress)
	}
	if o.Warn == nil {
		o.Warn = func(format string, args ...any) { s.t.Errorf("warned: "+format, args...) }
	}
	return Copy(s.t.Context(), o)
}

// mustCopy is copy, which must not fail.
func (s *server) mustCopy(o Options) {
	s.t.Helper()
	if err := s.copy(o); err != nil {
		s.t.Fatal(err)
	}
}

// host is the server as one end of a copy, until the test ends.
func (s *server) host() *Host {
	h := NewHost(s.dial)
	s.t.Cleanup(func() { _ = h.Close() })
	return h
}

// serve has handlers serve the files of the only channel of s, until end.
func (s *server) serve(handlers sftp.Handlers) (end func()) {
	near, far := net.Pipe()
	srv := sftp.NewRequestServer(far, handlers)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve()
	}()
	s.stream = near
	return func() {
		_ = srv.Close()
		<-served
	}
}

// warnings are those of a copy.
type warnings []string

func (w *warnings) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// localBelow is this computer as the target of a copy into a folder.
func localBelow(t *testing.T, dir string) Place {
	t.Helper()
	here := Local()
	done, err := here.writeBelow(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = done() })
	return here
}

// symlink makes a link, and the folder that it is in.
func symlink(t *testing.T, target, name string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.Symlink(target, name)); err != nil {
		t.Fatal(err)
	}
}

// file makes a file of random bytes.
func file(t *testing.T, name string, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	_, _ = rand.Read(data)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o640); err != nil {
		t.Fatal(err)
	}
	return data
}

func same(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes differ from the %d copied", name, len(got), len(want))
	}
}

// noParts checks that nothing unfinished is left in a folder.
func noParts(t *testing.T, dir string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, partPrefix+"*"))
	if err != nil || len(parts) > 0 {
		t.Errorf("left over: %q %v", parts, err)
	}
}

func TestCopyEverySize(t *testing.T) {
	for _, size := range []int{0, 1, packet, smallFile, smallFile + 1, chunkSize, 3*chunkSize + 7, writeWindow + 5*chunkSize + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := newServer(t)
			here := filepath.Join(t.TempDir(), "a")
			data := file(t, here, size)
			old := time.Now().Add(-time.Hour).Truncate(time.Second)
			if err := os.Chtimes(here, old, old); err != nil {
				t.Fatal(err)
			}
			s.mustCopy(Options{From: Local(), Sources: []string{here}, Target: "up"})
			same(t, s.path("up"), data)
			info, err := os.Stat(s.path("up"))
			if err != nil || info.Mode().Perm() != 0o640 || !info.ModTime().Equal(old) {
				t.Errorf("mode %v, time %v, want 0640 and %v", info.Mode(), info.ModTime(), old)
			}
			back := filepath.Join(t.TempDir(), "b")
			s.mustCopy(Options{To: Local(), Sources: []string{"up"}, Target: back})
			same(t, back, data)
			noParts(t, s.dir)
			noParts(t, filepath.Dir(back))
			if n := s.dials.Load(); n > 2*lanes {
				t.Errorf("%d channels were opened", n)
			}
		})
	}
}

func TestCopyLostConnection(t *testing.T) {
	s := newServer(t)
	s.cutAfter, s.cuts = 3*chunkSize, 5
	here := t.TempDir()
	data := file(t, filepath.Join(here, "large"), 50*chunkSize)
	for i := range 100 {
		file(t, filepath.Join(here, "many", fmt.Sprint(i)), 1000)
	}
	err := s.copy(Options{From: Local(), Sources: []string{filepath.Join(here, "large"), filepath.Join(here, "many")}, Target: "."})
	if err != nil {
		t.Fatal(err)
	}
	same(t, s.path("large"), data)
	for i := range 100 {
		if info, err := os.Stat(s.path(filepath.Join("many", fmt.Sprint(i)))); err != nil || info.Size() != 1000 {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if s.cuts > 0 {
		t.Errorf("%d cuts never came", s.cuts)
	}
	noParts(t, s.dir)
	noParts(t, s.path("many"))
}

func TestCopyResumesPart(t *testing.T) {
	const size, cut = writeWindow + 20*chunkSize, writeWindow + 10*chunkSize + 77
	for name, resumed := range map[string]bool{"what is there is kept": true, "another file's part is not trusted": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				here := filepath.Join(t.TempDir(), "a")
				data := file(t, here, size)
				info, err := os.Stat(here)
				if err != nil {
					t.Fatal(err)
				}
				left := make([]byte, cut)
				if resumed {
					left = data[:cut]
				}
				c := &copier{Options: Options{To: Local()}, id: "dead"}
				if err := os.WriteFile(c.partOf(job{to: s.path("up"), info: info}), left, 0o600); err != nil {
					t.Fatal(err)
				}
				p := new(Progress)
				s.mustCopy(Options{From: Local(), Sources: []string{here}, Target: "up", Resume: true, Progress: p})
				same(t, s.path("up"), data)
				if n := p.Counts(); (n.Skipped > 0) != resumed || n.Skipped+n.Copied != size {
					t.Errorf("%+v", n)
				}
				noParts(t, s.dir)
			})
		})
	}
}

func TestCopyResumeSkips(t *testing.T) {
	s := newServer(t)
	here := t.TempDir()
	file(t, filepath.Join(here, "d", "kept"), 1000)
	changed := filepath.Join(here, "d", "changed")
	file(t, changed, 1000)
	o := Options{From: Local(), Sources: []string{filepath.Join(here, "d")}, Target: "d"}
	s.mustCopy(o)
	later := time.Now().Add(time.Hour)
	data := file(t, changed, 1000)
	if err := os.Chtimes(changed, later, later); err != nil {
		t.Fatal(err)
	}
	o.Resume, o.Target, o.Progress = true, ".", new(Progress)
	s.mustCopy(o)
	same(t, s.path("d/changed"), data)
	if n := o.Progress.Counts(); n.Skipped != 1000 || n.Copied != 1000 {
		t.Errorf("%+v", n)
	}
}

func TestCopyOneChannel(t *testing.T) {
	s := newServer(t)
	s.limit = 1
	here := filepath.Join(t.TempDir(), "a")
	data := file(t, here, 8*chunkSize)
	s.mustCopy(Options{From: Local(), Sources: []string{here}, Target: "up"})
	same(t, s.path("up"), data)
	if n := s.dials.Load(); n != 1 {
		t.Errorf("%d channels", n)
	}
}

func TestCopyHostOutOfReach(t *testing.T) {
	s := newServer(t)
	s.refuse = errors.New("needs a person")
	here := t.TempDir()
	for i := range 50 {
		file(t, filepath.Join(here, "d", fmt.Sprint(i)), 10)
	}
	err := s.copy(Options{From: Local(), Sources: []string{filepath.Join(here, "d")}, Target: "d"})
	if !errors.Is(err, s.refuse) || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("got %v", err)
	}
}

func TestCopyOneFailure(t *testing.T) {
	s := newServer(t)
	here := t.TempDir()
	file(t, filepath.Join(here, "d", "good"), 10)
	file(t, filepath.Join(here, "d", "taken"), 10)
	file(t, s.path("d/taken/inside"), 1) // a folder of that name is in the way
	err := s.copy(Options{From: Local(), Sources: []string{filepath.Join(here, "d")}, Target: "."})
	if err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.path("d/good")); err != nil {
		t.Error(err)
	}
	noParts(t, s.path("d"))
}

func TestCopyErrorNamesTarget(t *testing.T) {
	for _, size := range []int{10, smallFile + 1} {
		s := newServer(t)
		here, there := filepath.Join(t.TempDir(), "taken"), t.TempDir()
		file(t, here, size)
		file(t, s.path("taken"), size)
		file(t, s.path("d/taken/inside"), 1) // a folder of that name is in the way
		file(t, filepath.Join(there, "taken", "inside"), 1)
		for target, err := range map[string]error{
			s.path("d/taken"):             s.copy(Options{From: Local(), Sources: []string{here}, Target: s.path("d")}),
			filepath.Join(there, "taken"): s.copy(Options{To: Local(), Sources: []string{s.path("taken")}, Target: there}),
		} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot write %q: ", target)) || target != s.path("d/taken") && strings.Contains(err.Error(), partPrefix) {
				t.Errorf("%d bytes: got %v", size, err)
			}
		}
	}
}

func TestCopyMissingFolder(t *testing.T) {
	s := newServer(t)
	here := t.TempDir()
	file(t, filepath.Join(here, "a"), 10)
	file(t, s.path("a"), 10)
	for want, err := range map[string]error{
		s.path("no"):              s.copy(Options{From: Local(), Sources: []string{filepath.Join(here, "a")}, Target: s.path("no/a")}),
		filepath.Join(here, "no"): s.copy(Options{To: Local(), Sources: []string{s.path("a")}, Target: filepath.Join(here, "no", "a")}),
	} {
		if missing, ok := errors.AsType[*NoFolderError](err); !ok || missing.Path != want {
			t.Errorf("got %v, want that %q is missing", err, want)
		}
	}
}

func TestCopyFileChanges(t *testing.T) {
	s := newServer(t)
	here := filepath.Join(t.TempDir(), "a")
	file(t, here, 1000)
	stale, err := os.Stat(here)
	if err != nil {
		t.Fatal(err)
	}
	file(t, here, 1500)
	var warned warnings
	c := &copier{Options: Options{Warn: warned.add}}
	part := s.path("p")
	file(t, part, 1000)
	err = localBelow(t, s.dir).write(t.Context(), 0, func(to writable) error {
		return c.putInPlace(localFiles{}, to, job{from: here, to: s.path("a"), info: stale}, part, 1000)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "changed during the copy") {
		t.Errorf("said %q", warned)
	}
}

func TestCopyCancelled(t *testing.T) {
	s := newServer(t)
	here := filepath.Join(t.TempDir(), "a")
	file(t, here, 60*chunkSize)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.cutAfter, s.cuts, s.instead = 5*chunkSize, 1, cancel
	h := s.host()
	err := Copy(ctx, Options{From: Local(), To: h, Sources: []string{here}, Target: "up", Progress: new(Progress), Warn: t.Logf})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.path("up")); err == nil {
		t.Error("it is there")
	}
}
