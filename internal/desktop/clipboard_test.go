package desktop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
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
