package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// withMounts runs a shell script, to which $0 is the program. What it mounts, only it
// and its children see. It returns what the script printed.
func withMounts(t *testing.T, script string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script, program)
	cmd.Env = append(append(os.Environ(), "DISPLAY=", "BROWSER=", "NO_COLOR=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // Go makes the mounts private
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
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
	writeFiles(t, dir, map[string]string{"hosts": "", "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"})
	out, err := withMounts(t, `
		mount --bind "$DIR/hosts" /etc/hosts
		mount --bind "$DIR/resolv.conf" /etc/resolv.conf
		"$0" demo --once --page`, "DIR="+dir, "TMPDIR="+dir)
	if err != nil || !strings.Contains(out, "200 OK") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestHomeReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := withMounts(t, `
		mount -t tmpfs -o ro tmpfs "$HOME"
		"$0" status; "$0" agent start || echo "exit $?"`, "HOME="+dir, "TUNCTL_HOME=", "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG=/dev/null")
	if err != nil || !strings.Contains(out, "read-only file system\ntunctl: hint: set TUNCTL_HOME to a directory that you can write to\nexit 5\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAFullDiskIsNamedAndNoTemporaryFileIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := withMounts(t, `
		mount -t tmpfs -o size=256k tmpfs "$TUNCTL_HOME"
		"$0" agent start
		dd if=/dev/zero of="$TUNCTL_HOME/filler" bs=4k 2>/dev/null || true
		"$0" forward nowhere.invalid 0:localhost:80 || echo "exit $?"
		"$0" ssh-config install || echo "exit $?"
		"$0" agent stop`, "TUNCTL_HOME="+dir, "HOME="+dir, "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG=/dev/null")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	full := dir + "/state/state.json: no space left on device\ntunctl: hint: free disk space, then try again\nexit 1\n"
	if !strings.Contains(out, "tunctl: error: cannot save the state: write "+full) {
		t.Errorf("forward on a full disk says:\n%s", out)
	}
	if strings.Contains(out, "/.tunctl-") || strings.Count(out, "hint: free disk space") != 2 {
		t.Errorf("it says:\n%s", out)
	}
}
