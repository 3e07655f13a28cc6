//go:build linux

package winetest

import (
	"path/filepath"
	"strings"
	"testing"
)

// removal is the end of a line with which a test fails that has a temporary folder: Wine 8
// lacks what os.RemoveAll uses.
const removal = ": TempDir RemoveAll cleanup: "

// passed reports whether a test program ended by itself and all its tests passed, but for
// the removal of their folders. Whatever else it prints is a failure.
func passed(out string, code int) bool {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	last := len(lines) - 1
	if code == 0 {
		return last == 0 && lines[0] == "PASS"
	}
	if code != 1 || last == 0 || lines[last] != "FAIL" {
		return false
	}
	for i, line := range lines[:last] {
		switch line, next := strings.TrimLeft(line, " "), lines[i+1]; {
		case strings.Contains(line, removal):
		case !strings.HasPrefix(line, "--- FAIL: "), indent(next) <= indent(lines[i]): // it must say why
			return false
		}
	}
	return true
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func TestOnlyTheRemovalOfAFolderIsForgiven(t *testing.T) {
	const removed = "    testing.go:1464: TempDir RemoveAll cleanup: unlinkat C:\\x: Not implemented.\n"
	for _, c := range []struct {
		out  string
		code int
		want bool
	}{
		{"PASS\n", 0, true},
		{"--- FAIL: TestA (0.00s)\n" + removed + "FAIL\n", 1, true},
		{"--- FAIL: TestA (0.00s)\n" + removed + "--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/c (0.00s)\n    " + removed + "FAIL\n", 1, true},
		{"--- FAIL: TestA (0.00s)\n    a_test.go:7: got 1\n" + removed + "FAIL\n", 1, false},
		{"--- FAIL: TestA (0.00s)\n" + removed + "--- FAIL: TestB (0.00s)\nFAIL\n", 1, false},
		{"testing: warning: no tests to run\nPASS\n", 0, false},
		{"--- FAIL: TestA (0.00s)\n" + removed + "FAIL\n", 2, false}, // a crash
		{"FAIL\n", 1, false},
		{"PASS\n", 1, false},
		{"", 0, false},
	} {
		if got := passed(c.out, c.code); got != c.want {
			t.Errorf("passed = %v with code %d and\n%s", got, c.code, c.out)
		}
	}
}

// TestThePackagesThatAreDifferentOnWindowsPassTheirTests runs the tests of packages whose
// Windows files can be tried under Wine.
func TestThePackagesThatAreDifferentOnWindowsPassTheirTests(t *testing.T) {
	needWine(t)
	for name, only := range map[string]string{
		"tunctl/internal/localsocket": ".",
		"tunctl/internal/client":      "Detached",
		"tunctl/internal/atomicfile":  ".",
		"tunctl/internal/autostart":   "Task|RunKey",
		"tunctl/tunnel":               "Pageant",
		"tunctl/tunnel/sshconfig":     "Windows|Cmd",
	} {
		t.Run(name, func(t *testing.T) {
			out := wine.testProgram(t, name)
			p := &person{t: t}
			if r := p.run(out, "-test.run", only, "-test.timeout", "90s"); !passed(r.out, r.code) {
				t.Errorf("exit code %d\n%s%s", r.code, r.out, r.talk)
			}
			if name != "tunctl/internal/localsocket" {
				return
			}
			// The refusal of another user's pipe is shown nowhere else, and skips itself where
			// nobody may make one.
			if r := p.run(out, "-test.v", "-test.run", "AnotherUser", "-test.timeout", "90s"); strings.Contains(r.out, "--- SKIP") || !strings.Contains(r.out, "=== RUN") {
				t.Errorf("it was not tried:\n%s", r.out)
			}
		})
	}
}

// testProgram builds the tests of a package for Windows, and returns their path there.
func (c *computer) testProgram(t *testing.T, pkg string) string {
	t.Helper()
	name := strings.ReplaceAll(pkg, "/", "-") + ".test.exe"
	if err := c.build(filepath.Join(c.drive(), programDir, name), "test", "-c", pkg); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(c.program, "tunctl.exe") + name
}
