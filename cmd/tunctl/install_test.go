//go:build unix

package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/dev/manpage"
	"tunctl/internal/dev/must"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/testprogram"
)

// makeTarget makes a target of the Makefile with the program that the tests run.
func makeTarget(t *testing.T, target, root string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", target, "GO=:", "BIN="+program, "DESTDIR="+root, "PREFIX=/opt/tunctl")
	cmd.Dir = repository
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") }) // the one that runs the tests
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, out)
	}
}

// filesIn are the files in a folder, with their modes.
func filesIn(t *testing.T, root string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			found[strings.TrimPrefix(path, root)] = info.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMakeInstallInstallsAllThatMakeUninstallRemoves(t *testing.T) {
	testprogram.Need(t, "make")
	root := t.TempDir()
	makeTarget(t, "install", root)
	want := map[string]fs.FileMode{
		"/opt/tunctl/bin/tunctl":                                   0o755,
		"/opt/tunctl/share/bash-completion/completions/tunctl":     0o644,
		"/opt/tunctl/share/zsh/site-functions/_tunctl":             0o644,
		"/opt/tunctl/share/fish/vendor_completions.d/tunctl.fish":  0o644,
		"/opt/tunctl/share/applications/tunctl.desktop":            0o644,
		"/opt/tunctl/share/icons/hicolor/scalable/apps/tunctl.svg": 0o644,
		"/opt/tunctl/share/man/man5/tunctl-config.5":               0o644,
		"/opt/tunctl/share/man/man5/tunctl-sites.5":                0o644,
	}
	for page := range manpage.All(testApp()) {
		want["/opt/tunctl/share/man/man1/"+page] = 0o644
	}
	got := filesIn(t, root)
	for file, mode := range want {
		if got[file] != mode {
			t.Errorf("%s has mode %v, want %v", file, got[file], mode)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files were installed, want %d: %v", len(got), len(want), got)
	}
	desktop, err := os.ReadFile(filepath.Join(root, "/opt/tunctl/share/applications/tunctl.desktop"))
	for _, line := range []string{"\nExec=/opt/tunctl/bin/tunctl tray\n", "\nTryExec=/opt/tunctl/bin/tunctl\n"} {
		if err != nil || !bytes.Contains(desktop, []byte(line)) {
			t.Errorf("the desktop file lacks %q: %v\n%s", line, err, desktop)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "/opt/tunctl/bin/other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	makeTarget(t, "uninstall", root)
	if left := filesIn(t, root); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// TestManPages compares the pages that are installed with the commands.
func TestManPages(t *testing.T) {
	dir := filepath.Join(repository, "packaging", "man")
	pages := manpage.All(testApp())
	for name, text := range pages {
		file := filepath.Join(dir, name)
		if os.Getenv("TUNCTL_UPDATE_MAN") != "" {
			must.Do(t, os.WriteFile(file, []byte(text), 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s is stale: TUNCTL_UPDATE_MAN=1 go test ./cmd/tunctl -run ManPages", file)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	must.Do(t, err)
	for _, file := range files {
		if pages[filepath.Base(file)] == "" {
			t.Errorf("%s is of no command: remove it", file)
		}
	}
}

// zsh loads an installed script at the first TAB.
func TestInstalledCompletionWorksAtTheFirstTab(t *testing.T) {
	testprogram.Need(t, "zsh")
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"_tunctl": completionScript(t, "zsh")})
	cmd := exec.Command("zsh", "-f", "-i")
	cmd.Env = []string{"HOME=" + dir, "TUNCTL_HOME=" + dir, "TERM=xterm", "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")}
	k := ptytest.Start(t, cmd)
	k.Answer("show() { printf 'the words are '; printf '<%s>' \"$@\"; echo; }; fpath=(" + dir + " $fpath)")
	k.Answer("bindkey -e; autoload -U compinit; compinit -u -D; show ready")
	k.Expect("the words are <ready>\r\n")
	if got := (typedShell{t, k}).press("tunctl exte"); got != "<tunctl><extend>" {
		t.Errorf("got %s", got)
	}
}

func completionScript(t *testing.T, shell string) string {
	t.Helper()
	text, err := fs.ReadFile(completionScripts, "completion/"+shell)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
