package hosts

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/smalldisk"
)

// TestKeyScriptFullDisk has room for a part of the line: none of it is left.
func TestKeyScriptFullDisk(t *testing.T) {
	home, child := smalldisk.New(t, 64)
	if !child {
		return
	}
	file := filepath.Join(home, ".ssh", "authorized_keys")
	before := strings.Repeat("# "+oldLine+"\n", 200)[:4090] + "\n" // of a page
	must.Do(t, os.Mkdir(filepath.Dir(file), 0o700))
	must.Do(t, os.WriteFile(file, []byte(before), 0o600))
	if os.WriteFile(filepath.Join(home, "rest"), bytes.Repeat([]byte("x"), 64<<10), 0o600) == nil {
		t.Fatal("the disk is not full")
	}
	out, err := runKeyScript(t, home, "install")
	if text, _ := os.ReadFile(file); err == nil || !strings.Contains(out, "it could not be written") || string(text) != before {
		t.Errorf("%v, %s\nit ends with %q", err, out, text[len(text)-40:])
	}
}
