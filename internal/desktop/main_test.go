package desktop

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tunctl/internal/dev/must"
)

// TestMain also plays the programs that tests start: the test binary is what
// $BROWSER and the clipboard's programs point to.
func TestMain(m *testing.M) {
	switch os.Getenv("STAND_IN") {
	case "":
		goleak.VerifyTestMain(m)
	case "browser":
		standInBrowser()
	case "failing":
		os.Exit(3)
	case "idle":
		report(map[string]any{"args": os.Args})
	case "copy":
		text, _ := io.ReadAll(os.Stdin)
		report(map[string]any{"args": os.Args, "text": string(text)})
	}
}

// standInBrowser asks for its last argument and reports what it saw. Told to
// linger, it then waits for as long as the test keeps a connection open.
func standInBrowser() {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	seen := map[string]any{"args": os.Args}
	if cmdline, err := os.ReadFile("/proc/self/cmdline"); err == nil {
		seen["cmdline"] = strings.ReplaceAll(string(cmdline), "\x00", " ")
	}
	resp, err := client.Get(os.Args[len(os.Args)-1])
	if err != nil {
		seen["error"] = err.Error()
		report(seen)
		os.Exit(1)
	}
	_ = resp.Body.Close()
	seen["status"], seen["location"] = resp.StatusCode, resp.Header.Get("Location")
	report(seen)
	if address := os.Getenv("STAND_IN_LINGER"); address != "" {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_, _ = io.ReadAll(conn)
		}
	}
}

// environment is what the functions under test look at.
type environment map[string]string

// setenv sets an environment for the test in place of the process's own.
func setenv(t *testing.T, env environment) {
	t.Helper()
	for _, name := range []string{
		"BROWSER", "DISPLAY", "PATH", "TERMINAL", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "WSL_INTEROP", "XDG_CURRENT_DESKTOP",
	} {
		t.Setenv(name, "")
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
}

// report writes the file whole, so that a reader never sees half of it.
func report(seen map[string]any) {
	path := os.Getenv("STAND_IN_REPORT")
	text, err := json.Marshal(seen)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		os.Exit(4)
	}
}

// reported reads what a stand-in reported.
func reported(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Do(t, err)
	var seen map[string]any
	must.Do(t, json.Unmarshal(text, &seen))
	return seen
}
