//go:build unix

package desktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PicturePage keeps pictures of a page, light, dark and on a phone, in the folder that
// TUNCTL_ARTIFACTS names.
func PicturePage(t testing.TB, name, address string) {
	t.Helper()
	dir, err := filepath.Abs(os.Getenv("TUNCTL_ARTIFACTS"))
	if err != nil {
		t.Fatal(err)
	}
	for look, args := range map[string][]string{
		"light": {"--window-size=800,620"},
		"dark":  {"--window-size=800,620", "--blink-settings=preferredColorScheme=0"},
		"phone": {"--window-size=390,760"},
	} {
		path := filepath.Join(dir, name+"-"+look+".png")
		home := t.TempDir()
		args = append(args, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+home,
			"--screenshot="+path, address)
		cmd := exec.CommandContext(t.Context(), "chromium", args...) //nolint:gosec // the folder is the tester's choice
		cmd.Env = append(os.Environ(), "HOME="+home)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("chromium: %v\n%s", err, said)
		}
		if picture, err := os.Stat(path); err != nil || picture.Size() == 0 { //nolint:gosec // the same
			t.Fatalf("no picture of %s: %v", name, err)
		}
	}
}
