// Package smalldisk has tests run on a disk that is soon full.
package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// variable names, in the environment of a child of a test, the folder to mount a disk at.
const variable = "TUNCTL_TEST_SMALL_DISK"

// New runs a test again, in a child with a mount namespace of its own, where one folder is a disk of so many
// kB. It reports whether this is that child; the test is over in the other.
func New(t *testing.T, kB int) (disk string, child bool) {
	t.Helper()
	if disk = os.Getenv(variable); disk != "" {
		mount(t, disk, 0, kB)
		return disk, true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this test itself
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
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
	return "", false
}

// Resize changes the size of the disk.
func Resize(t *testing.T, disk string, kB int) {
	t.Helper()
	mount(t, disk, syscall.MS_REMOUNT, kB)
}

func mount(t *testing.T, disk string, flags uintptr, kB int) {
	t.Helper()
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", disk, "tmpfs", flags, fmt.Sprintf("size=%dk", kB))
	}
	if err != nil {
		t.Fatal(err)
	}
}
