package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// withMounts runs the program after a shell command has mounted something, which only
// the program and its children see. It returns what the program printed.
func withMounts(t *testing.T, mount string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", mount + ` && exec "$0" "$@"`, program}, args...)...)
	cmd.Env = append(append(os.Environ(), "DISPLAY=", "BROWSER=", "NO_COLOR=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // Go makes the mounts private
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		if os.Getenv("CI") == "true" {
			t.Fatal("no mount namespace may be made here, and CI promises one")
		}
		t.Skip("NOT TRIED: no mount namespace may be made here")
	}
	return string(out), err
}

func TestTheDemoWorksWhereTheHostsFileLacksLocalhost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"hosts": "", "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := withMounts(t, `mount --bind "$DIR/hosts" /etc/hosts && mount --bind "$DIR/resolv.conf" /etc/resolv.conf`,
		[]string{"DIR=" + dir, "TMPDIR=" + dir}, "demo", "--once", "--page")
	if err != nil || !strings.Contains(out, "200 OK") {
		t.Errorf("%v\n%s", err, out)
	}
}
