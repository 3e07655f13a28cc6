package desktop

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTheOwnerOfASocketIsRead(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 31210 1
   1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 02:000003E8 00000000  1001        0 31211 2
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 31212 1
   3: 0000000000000000FFFF00000100007F:D432 0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0 1002 0 9 1
   4: garbage
`
	server := netip.MustParseAddrPort("127.0.0.1:8080")
	for peer, want := range map[string]int{"127.0.0.1:54321": 1001, "127.0.0.1:54322": 1002, "127.0.0.1:54323": -1} {
		uid, found := socketOwner(strings.NewReader(table), netip.MustParseAddrPort(peer), server)
		if !found {
			uid = -1
		}
		if uid != want {
			t.Errorf("the socket of %s belongs to %d, want %d", peer, uid, want)
		}
	}
}

func TestAnotherUserOfTheMachineIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	l := testLink(t, peerCheck(environ{}))
	dir, err := os.MkdirTemp("", "stranger") // the stranger cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const stranger = 65534
	if err := os.Chown(dir, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "browser")
	if err := copyProgram(program); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(t.Context(), program, l.URL())
	cmd.Dir = dir
	cmd.Env = []string{"STAND_IN=browser", "STAND_IN_REPORT=" + report, "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Status   int
		Location string
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		t.Fatal(err)
	}
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
	return os.WriteFile(to, text, 0o755)
}
