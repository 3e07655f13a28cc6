package configs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	folder := SitesFolder(path)
	write := func(file, text string) func() error {
		return func() error { return os.WriteFile(file, []byte(text), 0o600) }
	}
	site := filepath.Join(folder, "own.toml")
	for _, step := range []struct {
		name    string
		do      func() error
		changes bool
	}{
		{"a config", write(path, "a"), true},
		{"its time", func() error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) }, false},
		{"a folder", func() error { return os.Mkdir(folder, 0o700) }, true},
		{"a site", write(site, "a"), true},
		{"a copy of an editor", write(site+"~", "a"), false},
		{"its text", write(site, "b"), true},
		{"its name", func() error { return os.Rename(site, site+".toml") }, true},
		{"a link", func() error {
			return errors.Join(write(path+".target", "c")(), os.Remove(path), os.Symlink(path+".target", path))
		}, true},
		{"what it links to", write(path+".target", "d"), true},
		{"no config", func() error { return os.Remove(path) }, true},
	} {
		before := Digest(path, folder)
		must(t, step.do())
		if (Digest(path, folder) != before) != step.changes {
			t.Errorf("%s: want a change: %v", step.name, step.changes)
		}
	}
}

func TestAFileThatIsBeingSavedIsNotBelievedYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, steps := range map[string][]func(){
		"written in two steps": {func() { save("") }, func() { save("new") }},
		"moved away first":     {func() { _ = os.Remove(path) }, func() { save("new") }},
	} {
		t.Run(name, func(t *testing.T) {
			save("new")
			want := Digest(path)
			save("old")
			before := Digest(path)
			if _, changed := ChangedDigest(before, path); changed {
				t.Error("a file that nobody touched has changed")
			}
			synctest.Test(t, func(t *testing.T) {
				steps[0]()
				go func() {
					time.Sleep(quietTime / 2)
					steps[1]()
				}()
				if mark, changed := ChangedDigest(before, path); !changed || mark != want {
					t.Errorf("got %s, %v", mark, changed)
				}
			})
		})
	}
}
