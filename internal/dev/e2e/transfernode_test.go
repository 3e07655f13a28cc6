package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/real"
)

func TestACopyGoesAroundATransferNodeThatWantsAPersonWhereThereIsNone(t *testing.T) {
	real.Need(t, "ssh")
	t.Parallel()
	l := newLaptop(t, "[host.lab-login]\ntransfer = \"lab-otp\"\n")
	l.run("login", "lab-login")
	here := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(here, []byte("some words"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, talk := l.run("cp", here, "lab-login:around")
	if !strings.Contains(talk, "cannot use the data-transfer node lab-otp") || !strings.Contains(talk, "copying through lab-login") {
		t.Errorf("it said %s", talk)
	}
	if out, _ := l.run("ssh", "lab-login", "cat around; rm around"); out != "some words" {
		t.Errorf("there is %q", out)
	}
}
