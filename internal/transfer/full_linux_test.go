package transfer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk names, in the environment of a child of ours, the folder to mount a small
// disk at.
const smallDisk = "TUNCTL_TEST_SMALL_DISK"

// onSmallDisk runs a test again, in a child with a mount namespace of its own, where
// one folder is a disk of so many MB. It reports whether this is that child.
func onSmallDisk(t *testing.T, mb int) (disk string, child bool) {
	t.Helper()
	if disk = os.Getenv(smallDisk); disk != "" {
		resize(t, disk, 0, mb)
		return disk, true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
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

func resize(t *testing.T, disk string, flags uintptr, mb int) {
	t.Helper()
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", disk, "tmpfs", flags, fmt.Sprintf("size=%dm", mb))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCopyFullDisk(t *testing.T) {
	const room, size, more = writeWindow>>20 + 8, writeWindow + 16*chunkSize, 200
	disk, child := onSmallDisk(t, room)
	if !child {
		return
	}
	for name, ends := range map[string]func(s *server) Options{
		"there": func(s *server) Options {
			return Options{From: Local(), Sources: []string{s.path("a")}, Target: filepath.Join(disk, "copy")}
		},
		"here": func(s *server) Options {
			return Options{To: Local(), Sources: []string{s.path("a")}, Target: filepath.Join(disk, "copy")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			o := ends(s)
			data := file(t, o.Sources[0], size)
			copied := filepath.Join(disk, "copy")
			err := s.copy(o)
			if !errors.Is(err, errFull) || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("it said %v", err)
			}
			if _, err := os.Stat(copied); err == nil {
				t.Error("half a file has the name of the whole")
			}
			resize(t, disk, syscall.MS_REMOUNT, more)
			o.Resume, o.Progress = true, new(Progress)
			s.mustCopy(o)
			same(t, copied, data)
			noParts(t, disk)
			if n := o.Progress.Counts(); n.Skipped == 0 {
				t.Errorf("nothing of the first try was used: %+v", n)
			}
			if err := os.Remove(copied); err != nil {
				t.Fatal(err)
			}
			resize(t, disk, syscall.MS_REMOUNT, room)
		})
	}
}

func TestCopyFullDiskSmallFiles(t *testing.T) {
	disk, child := onSmallDisk(t, 1)
	if !child {
		return
	}
	s := newServer(t)
	here := t.TempDir()
	for i := range 8 {
		file(t, filepath.Join(here, "d", fmt.Sprint(i)), smallFile)
	}
	err := s.copy(Options{From: Local(), Sources: []string{filepath.Join(here, "d")}, Target: filepath.Join(disk, "d")})
	if !errors.Is(err, errFull) {
		t.Errorf("it said %v", err)
	}
	noParts(t, filepath.Join(disk, "d"))
}
