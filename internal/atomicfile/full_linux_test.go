package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"tunctl/internal/dev/must"
)

// fullDisk is a folder with room for a few hundred kilobytes; the test is run again in
// a child that may mount it.
func fullDisk(t *testing.T) (dir string, child bool) {
	t.Helper()
	const name = "TUNCTL_TEST_SMALL_DISK"
	if dir = os.Getenv(name); dir == "" {
		rerun(t, name+"="+t.TempDir())
		return "", false
	}
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k")
	}
	must.Do(t, err)
	return dir, true
}

func TestWriteFullDisk(t *testing.T) {
	dir, child := fullDisk(t)
	if !child {
		return
	}
	path := filepath.Join(dir, "file")
	must.Do(t, Write(path, []byte("before"), 0o600))
	large := bytes.Repeat([]byte("x"), 1<<20)
	if err := Write(path, large, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("replacing it says %v", err)
	}
	if err := Create(filepath.Join(dir, "new"), large, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("making one says %v", err)
	}
	if got := content(t, path); got != "before" {
		t.Errorf("it holds %q", got)
	}
	only(t, dir, "file")
}

// rerun runs this test in a child with a mount namespace of its own.
func rerun(t *testing.T, env string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		if os.Getenv("CI") == "true" {
			t.Fatal("no mount namespace may be made here, and CI promises a full disk")
		}
		t.Skip("NOT TRIED: no mount namespace may be made here")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
