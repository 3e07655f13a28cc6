//go:build !windows

package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
)

const (
	oldLine = "ssh-ed25519 AAAAold ann@desk"
	newLine = "ssh-ed25519 AAAAnew tunctl@laptop"
)

// runKeyScript runs the script for a home folder.
func runKeyScript(t *testing.T, home, verb string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-s", verb, newLine, "AAAAnew")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.Stdin = strings.NewReader(keyScript)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestKeyScript(t *testing.T) {
	for _, x := range []struct{ name, before, with, after string }{
		{"no file", "", newLine + "\n", ""},
		{"another line", oldLine + "\n", oldLine + "\n" + newLine + "\n", oldLine + "\n"},
		{"no final newline", oldLine, oldLine + "\n" + newLine + "\n", oldLine + "\n"},
		{"there already", newLine + "\n" + oldLine + "\n", newLine + "\n" + oldLine + "\n", oldLine + "\n"},
	} {
		for _, link := range []bool{false, true} {
			t.Run(x.name, func(t *testing.T) {
				home := t.TempDir()
				file := filepath.Join(home, ".ssh", "authorized_keys")
				at := file
				if x.before != "" {
					must.Do(t, os.Mkdir(filepath.Dir(file), 0o750))
					if link {
						at = filepath.Join(home, "keys")
						must.Do(t, os.Symlink(at, file))
					}
					must.Do(t, os.WriteFile(at, []byte(x.before), 0o640))
				}
				for _, step := range []struct{ verb, want string }{{"install", x.with}, {"install", x.with}, {"remove", x.after}, {"remove", x.after}} {
					out, err := runKeyScript(t, home, step.verb)
					if text, _ := os.ReadFile(file); err != nil || string(text) != step.want {
						t.Errorf("%s: %q, want %q; %v %s", step.verb, text, step.want, err, out)
					}
				}
				mode := os.FileMode(0o600)
				if x.before != "" {
					mode = 0o640 // as it was
				}
				info, err := os.Lstat(at)
				if err != nil || info.Mode() != mode {
					t.Errorf("the file is %v, %v", info, err)
				}
				if dir, err := os.Stat(filepath.Dir(file)); err != nil || x.before == "" && dir.Mode().Perm() != 0o700 {
					t.Errorf("the folder is %v, %v", dir, err)
				}
				if left, _ := filepath.Glob(filepath.Join(home, "*.tunctl")); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			})
		}
	}

	t.Run("no regular file", func(t *testing.T) {
		home := t.TempDir()
		must.Do(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
		must.Do(t, os.Symlink("/dev/full", filepath.Join(home, ".ssh", "authorized_keys")))
		if out, err := runKeyScript(t, home, "install"); err == nil || !strings.Contains(out, "is no file") {
			t.Errorf("%v: %s", err, out)
		}
	})
}
