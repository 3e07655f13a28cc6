package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/real"
)

func TestPackageVersionsAreOrderedAsReleasesAre(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":              "1.2.3",
		"v1.2.3-rc1":          "1.2.3~rc1",
		"v1.2.3-5-gabc1234":   "1.2.3+5.gabc1234",
		"v1.2.3-dirty":        "1.2.3+dirty",
		"abc1234":             "0.0.0+git.abc1234",
		"1234567-dirty":       "0.0.0+git.1234567+dirty",
		"v1.0.0-rc1-2-gabcde": "1.0.0~rc1+2.gabcde",
	} {
		if got := packageVersion(version); got != want {
			t.Errorf("packageVersion(%q) = %q, want %q", version, got, want)
		}
	}
}

// packages makes the packages of two versions, the older one first, in a check of the
// release: what makes a .deb and an .rpm takes longer to compile than tunctl.
func packages(t *testing.T, kind string) (older, newer string) {
	t.Helper()
	if !checked() {
		t.Skip("`make release-check` runs it")
	}
	real.Need(t, "package", "ssh")
	return mustGlob(t, made(t, "v1.2.3"), "*."+kind), mustGlob(t, made(t, "v1.2.4"), "*."+kind)
}

// inNewSystem runs a script of testdata as root of a mount and pid namespace, and
// looks for what it must say.
func inNewSystem(t *testing.T, script string, args []string, says ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	words := append([]string{"--mount", "--pid", "--fork", "--kill-child", "sh", "testdata/" + script}, args...)
	out, err := exec.CommandContext(ctx, "unshare", words...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range says {
		if !strings.Contains(string(out), want) {
			t.Errorf("never said %q", want)
		}
	}
}

func TestThePackageInstallsWorksUpgradesAndGoesWithoutATrace(t *testing.T) {
	older, newer := packages(t, "deb")
	inNewSystem(t, "deb.sh", []string{older, newer},
		"tunctl v1.2.3 (commit", "200 OK", "man1/tunctl-up.1.gz", "completes: status",
		"the running agent is version v1.2.3, this program is version v1.2.4; `tunctl agent restart` updates the agent",
		"version v1.2.4, since", "nothing is left")
}

func TestTheRPMInstallsWorksUpgradesAndGoesWithoutATrace(t *testing.T) {
	older, newer := packages(t, "rpm")
	inNewSystem(t, "rpm.sh", []string{older, newer},
		"-rwxr-xr-x root root /usr/bin/tunctl", "-rw-r--r-- root root /usr/lib/systemd/user/tunctl.service",
		"scripts: none", "needs: nothing", "tunctl v1.2.3 (commit", "200 OK", "tunctl v1.2.4 (commit", "nothing is left")
}

func TestTheLintersFindNoErrorInThePackages(t *testing.T) {
	for kind, linter := range map[string][]string{
		"deb": {"lintian", "--allow-root", "--fail-on", "error"},
		"rpm": {"rpmlint", "--config", filepath.Join(source(t), "packaging", "rpmlint.toml")},
	} {
		path, _ := packages(t, kind)
		out, err := exec.CommandContext(t.Context(), linter[0], append(linter[1:], path)...).CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Errorf("%s: %v", linter[0], err)
		}
	}
}

// An ordinary user has no rpm to install with, and unpacks it into a folder.
func TestAnOrdinaryUserCanUnpackTheRPM(t *testing.T) {
	path, _ := packages(t, "rpm")
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	unpack := exec.CommandContext(t.Context(), "sh", "-c", "rpm2cpio | setpriv --reuid=65534 --clear-groups cpio -idm --quiet && usr/bin/tunctl version")
	unpack.Dir = dir
	data, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.Close() }()
	unpack.Stdin = data
	if out, err := unpack.CombinedOutput(); err != nil || !strings.Contains(string(out), "tunctl v1.2.3") {
		t.Errorf("%v: %s", err, out)
	}
}
