package e2e

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/real"
)

func TestAFullDiskOfTheHostIsSaidAndTheCopyGoesOnWhenThereIsRoom(t *testing.T) {
	real.Need(t, "ssh")
	t.Parallel()
	l := newLaptop(t, "[host.lab-login]\n")
	home, _ := l.run("ssh", "lab-login", "mkdir -p small; cd small; pwd")
	disk := strings.TrimSpace(home)
	mount := func(options string) {
		t.Helper()
		if out, err := l.lab.Exec("login1", "mount", "-t", "tmpfs", "-o", options, "tmpfs", disk); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	mount("size=40m,mode=777")
	t.Cleanup(func() {
		if out, err := l.lab.Exec("login1", "umount", disk); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	here := filepath.Join(t.TempDir(), "data")
	sum := randomFile(t, here, 48<<20)
	cp := l.command("cp", "-q", here, "lab-login:small/data")
	var talk bytes.Buffer
	cp.Stderr = &talk
	if err := cp.Run(); err == nil || !strings.Contains(talk.String(), "no space left") || !strings.Contains(talk.String(), "--resume") {
		t.Errorf("%v, and it said %s", err, talk.String())
	}
	if out, _ := l.run("ssh", "lab-login", "ls -A small"); !strings.Contains(out, ".part") || strings.Contains(out, "data") {
		t.Errorf("there is %q", out)
	}
	mount("remount,size=80m")
	if _, talk := l.run("cp", "--resume", here, "lab-login:small/data"); !strings.Contains(talk, "skipped") {
		t.Errorf("it began anew: %s", talk)
	}
	if out, _ := l.run("ssh", "lab-login", "sha256sum small/data"); !strings.HasPrefix(out, sum) {
		t.Errorf("%s, want %s", out, sum)
	}
}
