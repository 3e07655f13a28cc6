//go:build unix

package posixsh

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runIn runs a command line with that shell, in an empty folder.
func runIn(t *testing.T, shell, line, stdin string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shell, "-c", line)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s, %s: %v: %s", shell, line, err, out)
	}
	return string(out)
}

func TestEveryShellStartsAScriptAlike(t *testing.T) {
	for _, shell := range []string{"sh", "bash", "zsh", "fish", "csh", "tcsh"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		for _, line := range []string{Script, LoginScript} {
			if got := runIn(t, shell, line, "x=1\necho \"it's $x\"\n"); got != "it's 1\n" {
				t.Errorf("%s, %s: %q", shell, line, got)
			}
		}
		for _, line := range []string{Line, LoginLine} {
			if got := runIn(t, shell, line, "echo \"it's\"; cat\nthe rest"); got != "it's\nthe rest" {
				t.Errorf("%s, %s: %q", shell, line, got)
			}
		}
	}
}

func TestSetupFile(t *testing.T) {
	const owned = "hello\n"
	for name, tt := range map[string]struct {
		folder, file os.FileMode
		want         string
	}{
		"of the user alone":   {0o700, 0o600, owned},
		"readable for others": {0o755, 0o644, owned},
		"writable for others": {0o700, 0o602, "\n"},
		"for the group":       {0o700, 0o660, "\n"},
		"in such a folder":    {0o770, 0o600, "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			link, folder := filepath.Join(home, ".tunctl"), filepath.Join(home, "scratch")
			for _, err := range []error{
				os.Mkdir(folder, 0o700), os.Symlink(folder, link), os.WriteFile(filepath.Join(link, "setup"), []byte("x=hello\n"), 0o600),
				os.Chmod(filepath.Join(link, "setup"), tt.file), os.Chmod(folder, tt.folder),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			for line, stdin := range map[string]string{LoginScript: "echo $x\n", LoginLine: "echo $x\n"} {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
				cmd.Env, cmd.Stdin = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}, strings.NewReader(stdin)
				if out, err := cmd.CombinedOutput(); err != nil || string(out) != tt.want {
					t.Errorf("%s: %v, %q, want %q", line, err, out, tt.want)
				}
			}
		})
	}
}

// FuzzQuote shows that a quoted value stays one word, whatever is in it.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{
		"", "plain", "it's", `"$(touch x)"`, "`touch x`", "a\nb", `\`, `'; touch x; '`, "!!", "*?[a]", "~/x", "-n", "$HOME", "\xff\xfe", "名前", "a\x00b",
	} {
		f.Add(s)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		f.Skip("needs sh")
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, _, _ := strings.Cut(s, "\x00")
		cmd := exec.Command("sh", "-s")
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"HOME=/home/x", "PATH=/usr/bin:/bin", "LC_ALL=C"}
		cmd.Stdin = strings.NewReader("set -- " + Quote(s) + "\nprintf '%s:%s' $# \"$1\"\n")
		out, err := cmd.Output()
		if err != nil || string(out) != "1:"+want {
			t.Fatalf("%q became %q (%v)", s, out, err)
		}
		path := QuotePath("~/" + want)
		if !strings.HasPrefix(path, `"$HOME"/'`) || !strings.HasSuffix(path, "'") {
			t.Fatalf("path %q", path)
		}
	})
}
