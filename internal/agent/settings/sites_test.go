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

func TestSiteFilesAreReadAgainOnlyWhenOneHasChanged(t *testing.T) {
	paths := home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}
	folder := configs.SitesFolder(paths.Config)
	var logged bytes.Buffer
	now := Open(paths, "", slog.New(slog.NewTextHandler(&logged, nil)))
	readOnce := func(what string) {
		t.Helper()
		read := now.Sites()
		if again := now.Sites(); &again[0] != &read[0] {
			t.Errorf("%s: the sites were read twice", what)
		}
	}
	readOnce("without a folder")
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
		if site, err := now.Sites().Find("own"); err != nil || site.Title != name {
			t.Errorf("%q, %v; want %q", site.Title, err, name)
		}
	}
	if err := os.Chtimes(file, written, written.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	readOnce("with an old file")
	bad := filepath.Join(folder, "bad.toml")
	if err := os.WriteFile(bad, []byte("titel = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(bad, written, written.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	read := now.Sites()
	if again := now.Sites(); &again[0] == &read[0] {
		t.Error("a file that could not be read is not tried again")
	}
	if n := strings.Count(logged.String(), "cannot read a site file"); n != 1 {
		t.Errorf("the log has it %d times", n)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := now.Sites().Find("own"); err == nil {
		t.Error("a removed site is still known")
	}
}
