package dashboard

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/testprogram"
)

const (
	strangerURL    = "DASHBOARD_STRANGER_URL"
	strangerHost   = "DASHBOARD_STRANGER_HOST"
	strangerBearer = "DASHBOARD_STRANGER_BEARER"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(strangerURL); url != "" {
		printStatus(url)
		return
	}
	os.Exit(m.Run())
}

// printStatus is the other user's program.
func printStatus(url string) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err == nil {
		req.Host = os.Getenv(strangerHost)
		req.Header.Set("Authorization", "Bearer "+os.Getenv(strangerBearer))
		var res *http.Response
		if res, err = http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			fmt.Print(res.StatusCode)
			return
		}
	}
	fmt.Print(err)
}

func TestGuardOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	s, link := serve(t)
	_, bearer := enterAs(t, link)
	dir, err := os.MkdirTemp("", "stranger") // a stranger cannot enter t.TempDir
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	self, err := os.ReadFile("/proc/self/exe")
	must.Do(t, err)
	program := filepath.Join(dir, "browser")
	must.Do(t, testprogram.Write(program, self))
	for _, c := range []struct {
		uid  uint32
		host string
		path string
		want string
	}{
		{0, s.door, "/", "200"},
		{0, hostOf(link), "/api/jobs", "502"},
		{65534, s.door, "/", "403"},
		{65534, hostOf(link), "/", "403"},
		{65534, hostOf(link), "/api/jobs", "403"},
	} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Dir = dir
		cmd.Env = []string{strangerURL + "=http://" + s.door + c.path, strangerHost + "=" + c.host, strangerBearer + "=" + bearer, "GORACE=atexit_sleep_ms=0"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
		if out, err := cmd.Output(); err != nil || string(out) != c.want {
			t.Errorf("user %d got %q of %s%s, want %s: %v", c.uid, out, c.host, c.path, c.want, err)
		}
	}
}
