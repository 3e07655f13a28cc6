//go:build linux

package e2e

import (
	"errors"
	"image/color"
	"os/exec"
	"strings"
	"testing"

	"tunctl/internal/dev/desktest"
	"tunctl/internal/dev/real"
)

// needsYouOrange is the icon's colour when a host asks for the user.
var needsYouOrange = color.NRGBA{0xd0, 0x6f, 0x00, 0xff}

func TestAPasswordAndACodeAreAskedInWindows(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "desktop")
	t.Parallel()
	l := newLaptop(t, strings.Replace(notebookConfig, "lab-login", "lab-pwotp", 1))
	d := desktest.New(t)
	d.StartNotifications()
	d.StartPanel()

	// With neither a terminal nor a desktop there is nobody to ask.
	exit, ended := errors.AsType[*exec.ExitError](l.command("up", "--no-open").Run())
	if !ended || exit.ExitCode() != 3 {
		t.Fatalf("up without anybody there: %v, want exit code 3", exit)
	}
	quit := startTray(l, d)
	d.Find("prompt-needed", needsYouOrange)

	up := l.command("up", "--no-open")
	said := &strings.Builder{}
	up.Stdout, up.Stderr = said, said
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	d.Window("prompt-password", "Log in to lab-pwotp").Answer(real.Password, "Return")
	d.Window("prompt-code", "Log in to lab-pwotp").Answer(l.lab.Code(), "Return")
	if err := up.Wait(); err != nil {
		t.Fatalf("up: %v\n%s", err, said)
	}
	d.Find("prompt-answered", readyGreen)
	quit()
	l.run("down", "--cancel")
}
