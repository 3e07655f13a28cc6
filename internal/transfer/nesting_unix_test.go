//go:build !windows

package transfer

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/wait"

	"github.com/pkg/sftp"
)

func TestCopyIntoItself(t *testing.T) {
	for name, c := range map[string]struct{ source, target string }{
		"into a folder in it":                  {"data", "data/backup"},
		"into a folder deeper in it":           {"data", "data/backup/old/"},
		"under a new name":                     {"data", "data/new"},
		"as all of a folder":                   {"data/.", "data/backup"},
		"from a link to it":                    {"link", "data/backup"},
		"into a link to a folder in it":        {"data", "inside"},
		"under the name of a link":             {"data", "elsewhere"},
		"beside another file":                  {"*", "data/backup"},
		"into itself, by a way through others": {"data", "elsewhere/../data/backup"},
	} {
		t.Run(name, func(t *testing.T) {
			for way, ends := range map[string]func(h *Host) (from, to Place){
				"on a host": func(h *Host) (from, to Place) { return h, h },
				"up":        func(h *Host) (from, to Place) { return Local(), h },
				"down":      func(h *Host) (from, to Place) { return h, Local() },
			} {
				dir := t.TempDir()
				file(t, filepath.Join(dir, "data/a"), 10)
				file(t, filepath.Join(dir, "data/backup/old/b"), 10)
				for link, target := range map[string]string{"link": "data", "inside": "data/backup", "elsewhere/data": "../data/backup"} {
					symlink(t, target, filepath.Join(dir, link))
				}
				before := listing(t, dir)
				stream, err := realServer(t, dir, "")
				if err != nil {
					t.Fatal(err)
				}
				s := newServer(t)
				s.stream = stream
				h := NewHost(s.dial)
				from, to := ends(h)
				ctx, cancel := context.WithTimeout(t.Context(), wait.Limit) // it may not end
				err = Copy(ctx, Options{
					From: from, Sources: []string{dir + "/" + c.source}, To: to, Target: dir + "/" + c.target, Progress: new(Progress), Warn: t.Errorf,
				})
				cancel()
				_ = h.Close()
				if err == nil || !strings.Contains(err.Error(), "into itself") {
					t.Errorf("%s: %v", way, err)
				}
				if after := listing(t, dir); after != before {
					t.Errorf("%s: before\n%s\nafter\n%s", way, before, after)
				}
			}
		})
	}
}

// listing are the paths of everything in a folder.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(paths, "\n")
}

// noModes is a file server whose files have no modes and times: the library's in memory
// fails to set those of a folder.
type noModes struct{ sftp.FileCmder }

func (n noModes) Filecmd(r *sftp.Request) error {
	if r.Method == "Setstat" {
		return nil
	}
	return n.FileCmder.Filecmd(r)
}

func TestCopySameNameElsewhere(t *testing.T) {
	dir := t.TempDir()
	data := file(t, filepath.Join(dir, "data/a"), 10)
	memory := sftp.InMemHandler()
	memory.FileCmd = noModes{memory.FileCmd}
	s := newServer(t)
	defer s.serve(memory)()
	h := s.host()
	backup := filepath.Join(dir, "data/backup")
	err := h.do(t.Context(), 0, func(r *remoteFiles) error { return r.MkdirAll(backup) })
	if err != nil {
		t.Fatal(err)
	}
	err = Copy(t.Context(), Options{From: Local(), Sources: []string{filepath.Join(dir, "data")}, To: h, Target: backup, Progress: new(Progress), Warn: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	err = h.use(t.Context(), 0, func(there files) error {
		f, err := there.Open(backup + "/data/a")
		if err != nil {
			return err
		}
		got := make([]byte, 20)
		if n, err := f.ReadAt(got, 0); !errors.Is(err, io.EOF) || string(got[:n]) != string(data) {
			t.Errorf("%d bytes, %v", n, err)
		}
		names, err := there.ReadDirContext(t.Context(), backup)
		if len(names) != 1 {
			t.Errorf("the folder has %v", names)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
