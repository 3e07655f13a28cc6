package desktop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/wait"
)

func TestCopy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in plays xclip")
	}
	env, path := standIn(t, "copy")
	dir := t.TempDir()
	must.Do(t, os.Symlink(env["BROWSER"], filepath.Join(dir, "xclip")))
	env["PATH"], env["DISPLAY"], env["WAYLAND_DISPLAY"] = dir, ":0", "wayland-0" // wl-copy is not there
	setenv(t, env)
	must.Do(t, Copy(t.Context(), secretPage))
	seen := reported(t, path)
	if seen["text"] != secretPage {
		t.Errorf("the clipboard got %q", seen["text"])
	}
	if strings.Contains(fmt.Sprint(seen["args"]), "s3cr3t") {
		t.Errorf("the token shows in the command line: %v", seen["args"])
	}
	t.Setenv("PATH", "")
	if err := Copy(t.Context(), secretPage); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a program: got %v, want ErrUnavailable", err)
	}
}

func TestTerminal(t *testing.T) {
	dir := dialogEnv(t, map[string]string{"xterm": `echo "$@" >$0.shown`}) // the last that is tried
	if err := Terminal(t.Context(), "login", "narval"); err != nil {
		t.Error(err)
	}
	self, _ := os.Executable()
	var shown []byte
	wait.Until(t, "xterm ran", func() bool { // Terminal need not wait for its end
		shown, _ = os.ReadFile(filepath.Join(dir, "xterm.shown"))
		return len(shown) > 0
	})
	if !strings.HasSuffix(string(shown), self+" login narval\n") {
		t.Errorf("the window runs %q", shown)
	}
}

func TestTerminals(t *testing.T) {
	argv := []string{"/opt/my tools/tunctl", "logs", "it's"}
	setenv(t, environment{"DISPLAY": ":0", "TERMINAL": "urxvt"})
	for _, list := range terminals("linux", argv) {
		if !slices.Equal(list[len(list)-3:], argv) {
			t.Errorf("%q does not end in %q", list, argv)
		}
	}
	mac := terminals("darwin", argv)[0]
	if got, want := mac[len(mac)-1], `'/opt/my tools/tunctl' 'logs' 'it'\''s'`; got != want {
		t.Errorf("the line for macOS is %s, want %s", got, want)
	}
	setenv(t, nil)
	if got := terminals("linux", argv); got != nil {
		t.Errorf("without a display there are terminals: %q", got)
	}
}
