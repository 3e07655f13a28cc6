//go:build linux

package winetest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// said is a line with which a test fails, or a program crashes. Tests whose temporary folder
// cannot be removed fail for that alone: Wine 8 lacks what os.RemoveAll uses.
var said = regexp.MustCompile(`^\s+\w+\.go:\d+: |panic: |no tests to run|command not found|wine: `)

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
			r := p.run(out, "-test.run", only, "-test.timeout", "1m")
			for line := range strings.Lines(r.out + r.talk) {
				if said.MatchString(line) && !strings.Contains(line, "TempDir RemoveAll cleanup") {
					t.Errorf("%s%s", r.out, r.talk)
					break
				}
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
