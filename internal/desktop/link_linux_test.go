package desktop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/testprogram"
)

func TestLinkOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	l := testLink(t)
	dir, err := os.MkdirTemp("", "stranger") // the stranger cannot enter t.TempDir
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const stranger = 65534
	must.Do(t, os.Chown(dir, stranger, stranger))
	program := filepath.Join(dir, "browser")
	must.Do(t, copyProgram(program))
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(t.Context(), program, l.URL())
	cmd.Dir = dir
	cmd.Env = []string{"STAND_IN=browser", "STAND_IN_REPORT=" + report, "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(report)
	must.Do(t, err)
	var seen struct {
		Status   int
		Location string
	}
	must.Do(t, json.Unmarshal(text, &seen))
	if seen.Status != 403 || seen.Location != "" {
		t.Errorf("another user got %d and %q, want 403 and nothing", seen.Status, seen.Location)
	}
}

func copyProgram(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return testprogram.Write(to, text)
}
