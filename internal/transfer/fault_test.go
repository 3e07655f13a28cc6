package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/sftp"
)

// quota is a file server that takes no more than so many bytes, and then says no more
// than servers do.
type quota struct{ sftp.FileWriter }

func (q quota) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	w, err := q.FileWriter.Filewrite(r)
	return limited{w}, err
}

type limited struct{ io.WriterAt }

func (l limited) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > 3*chunkSize {
		return 0, sftp.ErrSSHFxFailure
	}
	return l.WriterAt.WriteAt(p, off)
}

func TestCopyQuotaUsedUp(t *testing.T) {
	memory := sftp.InMemHandler()
	memory.FilePut = quota{memory.FilePut}
	s := newServer(t)
	defer s.serve(memory)()
	here := filepath.Join(t.TempDir(), "a")
	file(t, here, 8*chunkSize)
	err := s.copy(Options{From: Local(), Sources: []string{here}, Target: "/up"})
	if err == nil || !strings.Contains(err.Error(), "quota") {
		t.Errorf("it said %v", err)
	}
}

func TestCopyLargeFileChanges(t *testing.T) {
	for name, change := range map[string]func(name string) error{
		"it grew": func(name string) error {
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("more")
			return errors.Join(err, f.Close())
		},
		"it shrank": func(name string) error { return os.Truncate(name, chunkSize) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			here := filepath.Join(t.TempDir(), "a")
			file(t, here, 60*chunkSize)
			done := false
			s.cutAfter, s.cuts, s.instead = 2*chunkSize, 1, func() {
				if !done {
					done = true
					if err := change(here); err != nil {
						t.Error(err)
					}
				}
			}
			var warned warnings
			err := s.copy(Options{From: Local(), Sources: []string{here}, Target: "up", Warn: warned.add})
			said := strings.Join(append(warned, fmt.Sprint(err)), "\n")
			if !strings.Contains(said, "during the copy") {
				t.Errorf("said %q", said)
			}
			_, there := os.Stat(s.path("up"))
			if whole := err == nil; whole != (there == nil) {
				t.Errorf("copied: %v; in place: %v", err, there)
			}
			noParts(t, s.dir)
		})
	}
}

func TestCopySmallFileShrank(t *testing.T) {
	s := newServer(t)
	here := filepath.Join(t.TempDir(), "a")
	file(t, here, 1000)
	stale, err := os.Stat(here)
	if err != nil {
		t.Fatal(err)
	}
	file(t, here, 500)
	h := s.host()
	c := &copier{Options: Options{From: Local(), To: h, Progress: new(Progress), Warn: t.Logf}}
	if err := c.copySmall(t.Context(), job{from: here, to: s.path("up"), info: stale}); !errors.Is(err, errShrank) {
		t.Errorf("copied: %v", err)
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) > 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
}

// sized are files that a system makes up, with a size that says nothing of them.
type sized struct {
	hostile
	text string
	size int64
}

func (s sized) Filelist(*sftp.Request) (sftp.ListerAt, error) {
	return entries{entry{"results", 0o444, s.size}}, nil
}

func (s sized) Fileread(*sftp.Request) (io.ReaderAt, error) { return strings.NewReader(s.text), nil }

func TestCopyWithoutSize(t *testing.T) {
	for _, c := range []struct {
		length int
		size   int64
	}{
		{1000, 0}, {smallFile, 0}, {3*smallFile + 7, 0}, // as in /proc
		{5, 4096}, // as in /sys
	} {
		h := sized{text: strings.Repeat("x", c.length), size: c.size}
		s := newServer(t)
		end := s.serve(sftp.Handlers{FileGet: h, FilePut: h, FileCmd: h, FileList: h})
		here, p := t.TempDir(), new(Progress)
		if err := s.copy(Options{Sources: []string{"/results"}, To: Local(), Target: here, Progress: p}); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		end()
		same(t, filepath.Join(here, "results"), []byte(h.text))
		if n := p.Counts(); n.Copied != int64(c.length) || n.Total != n.Copied {
			t.Errorf("%+v: counted %+v", c, n)
		}
	}
}

func TestCopyLinks(t *testing.T) {
	s := newServer(t)
	s.exact = true
	here := t.TempDir()
	data := file(t, filepath.Join(here, "d", "file"), 100)
	links := map[string]string{"to-file": "file", "nowhere": "no/such", "loop": ".", "self": "self"}
	for name, target := range links {
		symlink(t, target, filepath.Join(here, "d", name))
	}
	symlink(t, "d", filepath.Join(here, "named"))
	check := func(dir string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(links)+1 {
			t.Errorf("%v %v", entries, err)
		}
		for name, target := range links {
			if got, err := os.Readlink(filepath.Join(dir, name)); got != target {
				t.Errorf("%s leads to %q, want %q: %v", name, got, target, err)
			}
		}
		same(t, filepath.Join(dir, "file"), data)
	}
	back := t.TempDir()
	for _, again := range []bool{false, true} { // the second time they are there already
		for name, o := range map[string]Options{
			"up":   {From: Local(), Sources: []string{filepath.Join(here, "d"), filepath.Join(here, "named")}, Target: s.dir},
			"down": {To: Local(), Sources: []string{s.path("d"), s.path("named")}, Target: back},
		} {
			if name == "down" && !again {
				continue // it is not there yet
			}
			if err := s.copy(o); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for _, dir := range []string{s.path("d"), s.path("named"), filepath.Join(back, "d"), filepath.Join(back, "named")} {
		check(dir)
	}
}

func TestCopyPatternBrokenLink(t *testing.T) {
	s := newServer(t)
	s.exact = true
	here := t.TempDir()
	links := map[string]string{"nowhere": "no/such", "self": "self"}
	for _, dir := range []string{s.path("d"), filepath.Join(here, "d")} {
		data := file(t, filepath.Join(dir, "file"), 100)
		for name, target := range links {
			symlink(t, target, filepath.Join(dir, name))
		}
		o := Options{To: Local(), Sources: []string{filepath.Join(dir, "*")}, Target: t.TempDir()}
		if dir != s.path("d") {
			o.From, o.To = Local(), nil
		}
		if err := s.copy(o); err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		same(t, filepath.Join(o.Target, "file"), data)
		for name, target := range links {
			if got, err := os.Readlink(filepath.Join(o.Target, name)); got != target {
				t.Errorf("%s leads to %q, want %q: %v", name, got, target, err)
			}
		}
	}
}

func TestCopyMissingSource(t *testing.T) {
	s := newServer(t)
	s.exact = true
	symlink(t, "no/such", s.path("nowhere"))
	for name, form := range map[string]string{
		"nofile":  "no file or folder %q",
		"nowhere": `%q is a link to "no/such", which does not exist`,
		"no*file": "nothing matches %q",
	} {
		path := s.path(name)
		want := NoSourceError{path, fmt.Sprintf(form, path)}
		for _, from := range []Place{nil, Local()} {
			o := Options{From: from, Sources: []string{path}, Target: t.TempDir()}
			if from == nil {
				o.To = Local()
			}
			err := s.copy(o)
			if got, ok := errors.AsType[*NoSourceError](err); !ok || *got != want || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s from %T: %v", name, from, err)
			}
		}
	}
}

func TestCopyStrangeNames(t *testing.T) {
	names := []string{"-rf", "a b", `quote"s'`, "$HOME `id`", "brackets[1]*", "ünï", ".hidden"}
	if runtime.GOOS == "linux" {
		names = append(names, "two\nlines", "not-utf8-\xff\xfe", `back\slash`, "colon:inside")
	}
	if runtime.GOOS == "windows" {
		names = []string{"-rf", "a b", "brackets[1]"}
	}
	slices.Sort(names)
	s := newServer(t)
	here, back := t.TempDir(), t.TempDir()
	for _, name := range names {
		file(t, filepath.Join(here, "d", name), 10)
		if err := s.copy(Options{From: Local(), Sources: []string{filepath.Join(here, "d", name)}, Target: name}); err != nil {
			t.Errorf("%q alone: %v", name, err)
		}
	}
	s.mustCopy(Options{From: Local(), Sources: []string{filepath.Join(here, "d")}, Target: "d"})
	s.mustCopy(Options{To: Local(), Sources: []string{"d"}, Target: back})
	entries, err := os.ReadDir(filepath.Join(back, "d"))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, len(entries))
	for i, e := range entries {
		got[i] = e.Name()
	}
	if !slices.Equal(got, names) {
		t.Errorf("got %q, want %q", got, names)
	}
}
