package settings

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/home"
)

func TestSites(t *testing.T) {
	paths := home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}
	folder := configs.SitesFolder(paths.Config)
	var logged bytes.Buffer
	now := Open(paths, "", slog.New(slog.NewTextHandler(&logged, nil)))
	reload := func(what string, want bool) {
		t.Helper()
		if changed, err := now.Reload(); changed != want || err != nil {
			t.Errorf("%s: changed %v, %v", what, changed, err)
		}
		read := now.Sites()
		if again := now.Sites(); &again[0] != &read[0] {
			t.Errorf("%s: the sites were read twice", what)
		}
	}
	reload("without a folder", false)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "own.toml")
	written := time.Now()
	for _, name := range []string{"First site", "Other site", "A longer name"} {
		text := fmt.Sprintf("title = %q\nscheduler = \"slurm\"\n", name)
		err := os.WriteFile(file, []byte(text), 0o600)
		if err == nil {
			err = os.Chtimes(file, written, written) // two edits within what the file system tells apart
		}
		if err != nil {
			t.Fatal(err)
		}
		reload(name, true)
		if site, err := now.Sites().Find("own"); err != nil || site.Title != name {
			t.Errorf("%q, %v; want %q", site.Title, err, name)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "bad.toml"), []byte("titel = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload("with an error", true)
	reload("with an error", false)
	if n := strings.Count(logged.String(), "cannot read a site file"); n != 1 {
		t.Errorf("the log has it %d times", n)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	reload("without the folder", true)
	if _, err := now.Sites().Find("own"); err == nil {
		t.Error("a removed site is still known")
	}
}
