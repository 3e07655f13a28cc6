//go:build linux

package winetest

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestThePackagesThatAreDifferentOnWindowsPassTheirTests runs the tests of packages whose
// Windows files can be tried under Wine.
func TestThePackagesThatAreDifferentOnWindowsPassTheirTests(t *testing.T) {
	needWine(t)
	for name, only := range map[string]string{
		"tunctl/internal/localsocket": ".",
		"tunctl/internal/peer":        ".",
		"tunctl/internal/atomicfile":  ".",
		"tunctl/internal/autostart":   "Task|RunKey",
		"tunctl/tunnel":               "Pageant",
		"tunctl/tunnel/sshconfig":     "Windows|Cmd",
	} {
		t.Run(name, func(t *testing.T) {
			out := wine.testProgram(t, name)
			p := &person{t: t}
			r := p.run(out, "-test.v", "-test.run", only, "-test.timeout", "1m").must(0)
			if !strings.Contains(r.out, "--- PASS") {
				t.Errorf("no test ran:\n%s", r.out)
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
