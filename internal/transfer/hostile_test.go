package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
)

// entry is what a hostile file server says that there is.
type entry struct {
	name string
	mode fs.FileMode
	size int64
}

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return e.size }
func (e entry) Mode() fs.FileMode  { return e.mode }
func (e entry) ModTime() time.Time { return time.Unix(1e9, 0) }
func (e entry) IsDir() bool        { return e.mode.IsDir() }
func (e entry) Sys() any           { return nil }

type entries []os.FileInfo

func (l entries) ListAt(out []os.FileInfo, off int64) (int, error) {
	n := copy(out, l[min(off, int64(len(l))):])
	if n < len(out) {
		return n, io.EOF
	}
	return n, nil
}

const payload = "ssh-ed25519 AAAA attacker\n"

// hostile is a file server that lists what it likes. Every link leads to victim, and
// every file holds payload.
type hostile struct {
	folders  map[string]entries
	victim   string
	cutShort bool // listings fail at their end
}

func (h hostile) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	p := path.Clean(r.Filepath)
	list, folder := h.folders[p]
	switch {
	case r.Method == "List" && folder && h.cutShort:
		return cutShort{list}, nil
	case r.Method == "List" && folder:
		return list, nil
	case r.Method == "Readlink":
		return entries{entry{h.victim, 0, 0}}, nil
	case folder:
		return entries{entry{path.Base(p), fs.ModeDir | 0o755, 0}}, nil
	}
	return entries{entry{path.Base(p), 0o600, int64(len(payload))}}, nil
}

func (h hostile) Readlink(string) (string, error) { return h.victim, nil }

func (h hostile) Fileread(*sftp.Request) (io.ReaderAt, error) {
	return strings.NewReader(payload), nil
}

func (hostile) Filewrite(*sftp.Request) (io.WriterAt, error) { return nil, errors.New("no") }
func (hostile) Filecmd(*sftp.Request) error                  { return errors.New("no") }

// copyFrom copies /results from a hostile server into a folder here, and returns what
// was said.
func (h hostile) copyFrom(t *testing.T, here string) string {
	t.Helper()
	s := newServer(t)
	end := s.serve(sftp.Handlers{FileGet: h, FilePut: h, FileCmd: h, FileList: h})
	var said warnings
	err := s.copy(Options{Sources: []string{"/results"}, To: Local(), Target: here, Warn: said.add})
	end()
	return strings.Join(append(said, fmt.Sprint(err)), "\n")
}

func TestAHostileHostWritesNothingOutsideTheTarget(t *testing.T) {
	const folder, link = fs.ModeDir | 0o755, fs.ModeSymlink | 0o777
	keys := entries{entry{"authorized_keys", 0o600, int64(len(payload))}}
	for name, tt := range map[string]struct {
		listed  map[string]entries
		outside bool // the links lead out of the target, else out of the copied folder
	}{
		"one name as a link and a folder": {map[string]entries{"/results": {entry{"x", link, 0}, entry{"x", folder, 0}}, "/results/x": keys}, true},
		"one name as a folder and a link": {map[string]entries{"/results": {entry{"x", folder, 0}, entry{"x", link, 0}}, "/results/x": keys}, true},
		"a link that stays in the target": {map[string]entries{"/results": {entry{"x", link, 0}, entry{"x", folder, 0}}, "/results/x": keys}, false},
		"a link from an earlier copy":     {map[string]entries{"/results": {entry{"earlier", folder, 0}}, "/results/earlier": keys}, true},
		"a name that leads up":            {map[string]entries{"/results": {entry{"y/..", folder, 0}}, "/results/..": keys, "/": keys}, true},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			here := filepath.Join(base, "here")
			h := hostile{folders: tt.listed, victim: filepath.Join(base, "victim")}
			if !tt.outside {
				h.victim = ".."
			}
			for _, dir := range []string{filepath.Join(here, "results"), filepath.Join(base, "victim")} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			symlink(t, h.victim, filepath.Join(here, "results", "earlier"))
			said := h.copyFrom(t, here)
			_ = filepath.WalkDir(base, func(name string, d fs.DirEntry, _ error) error {
				dir := filepath.Base(filepath.Dir(name))
				if d.Type().IsRegular() && dir != "x" {
					t.Errorf("%s was written; it said %s", name, said)
				}
				return nil
			})
			if said == "<nil>" {
				t.Error("nothing was said")
			}
		})
	}
}

func TestALinkNeverTakesAFoldersPlace(t *testing.T) {
	here := t.TempDir()
	if err := os.Mkdir(filepath.Join(here, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.exact = true
	symlink(t, "/etc", s.path("x"))
	file(t, s.path("y"), 1)
	// Its own name: what is copied into here/ are the entries of the server's folder.
	err := s.copy(Options{Sources: []string{s.dir + "/."}, To: Local(), Target: here})
	if err == nil || !strings.Contains(err.Error(), "already has a folder of this name") {
		t.Errorf("it said %v", err)
	}
	if info, err := os.Lstat(filepath.Join(here, "x")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(here, "y")); err != nil {
		t.Error(err)
	}
}

func TestASizeThatCannotBeIsRefused(t *testing.T) {
	h := hostile{folders: map[string]entries{"/results": {entry{"x", 0o600, -5}}}}
	if said := h.copyFrom(t, t.TempDir()); !strings.Contains(said, "size") {
		t.Errorf("it said %q", said)
	}
}

// cutShort is a listing that fails at its end.
type cutShort struct{ entries }

func (l cutShort) ListAt(out []os.FileInfo, off int64) (int, error) {
	n, err := l.entries.ListAt(out, off)
	if errors.Is(err, io.EOF) && n == 0 {
		err = errors.New("input/output error")
	}
	return n, err
}

func TestCopyPartialListing(t *testing.T) {
	here := t.TempDir()
	h := hostile{cutShort: true, folders: map[string]entries{"/results": {entry{"x", 0o600, int64(len(payload))}}}}
	if said := h.copyFrom(t, here); !strings.Contains(said, `"/results": `) || !strings.Contains(said, "input/output error") {
		t.Errorf("it said %q", said)
	}
	if text, err := os.ReadFile(filepath.Join(here, "results", "x")); string(text) != payload {
		t.Errorf("copied %q, %v", text, err)
	}
	folder, err := os.Stat(filepath.Join(here, "results"))
	if err != nil {
		t.Fatal(err)
	}
	if !folder.ModTime().Equal(entry{}.ModTime()) || runtime.GOOS != "windows" && folder.Mode().Perm() != 0o755 {
		t.Errorf("the folder is %v of %v", folder.Mode(), folder.ModTime())
	}
}
