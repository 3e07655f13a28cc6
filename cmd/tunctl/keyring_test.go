//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/bustest"
	"tunctl/internal/dev/testprogram"
)

// startsNothing runs a command of the keyring with a dbus-launch that would be noticed,
// and returns what it says.
func startsNothing(t *testing.T, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	if err := testprogram.Write(filepath.Join(dir, "dbus-launch"), []byte("#!/bin/sh\necho \"$0 $*\" >"+started+"\n")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "keyring", "get", "alice@login:22")
	cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TUNCTL_HOME=" + dir}, env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("there is a keyring without a desktop:\n%s", out)
	}
	if text, err := os.ReadFile(started); err == nil {
		t.Errorf("it started %s", text)
	}
	return string(out)
}

func TestWithoutADesktopTheKeyringStartsNoBus(t *testing.T) {
	if bus := fmt.Sprintf("/run/user/%d/bus", os.Getuid()); fileThere(bus) {
		t.Skipf("there is a session bus here: %s", bus)
	}
	if said := startsNothing(t); !strings.Contains(said, "there is no desktop session here") || !strings.Contains(said, "--remember") {
		t.Errorf("it says:\n%s", said)
	}
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestWithoutADesktopTheKeyringStartsNoDaemon(t *testing.T) {
	data := t.TempDir()
	service := "[D-BUS Service]\nName=org.freedesktop.secrets\nExec=/bin/sh -c \"touch " + data + "/started\"\n"
	writeFiles(t, data, map[string]string{"dbus-1/services/secrets.service": service})
	bus := bustest.StartSession(t, []string{"XDG_DATA_HOME=" + data, "XDG_DATA_DIRS=" + data, "PATH=" + os.Getenv("PATH")})
	if said := startsNothing(t, "DBUS_SESSION_BUS_ADDRESS="+bus.Address); !strings.Contains(said, "no keyring is running") {
		t.Errorf("it says:\n%s", said)
	}
	if fileThere(filepath.Join(data, "started")) {
		t.Error("the bus started a keyring")
	}
}
