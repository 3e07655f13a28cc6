package arrows

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// byName are the files that may use runtime.GOOS. The system's name is an argument there,
// so that the tests of one system try what the program does on the others; or it is printed.
var byName = []string{
	"cmd/tunctl/doctor.go", "cmd/tunctl/version.go",
	"internal/autostart/autostart.go",
	"internal/desktop/desktop.go", "internal/desktop/dialog.go", "internal/desktop/notify_other.go",
	"internal/desktop/open.go",
	"tunnel/sshconfig/file.go", "tunnel/sshconfig/resolver.go",
}

// tools is the folder of what runs on a developer's machine only.
const tools = "internal/dev/"

// decision is runtime.GOOS where it decides something on the spot.
var decision = regexp.MustCompile(`runtime\.GOOS *[=!]=|[=!]= *runtime\.GOOS|switch runtime\.GOOS`)

// sourceFiles are the program's own Go files, without tests, by their path in the module.
func sourceFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	root := os.DirFS("../../..")
	for _, top := range []string{"cmd", "configs", "internal", "jobwatch", "tray", "tunnel"} {
		err := fs.WalkDir(root, top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, tools) {
				return err
			}
			files[path], err = fs.ReadFile(root, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestSystemDifferencesAreInFilesByBuildTag(t *testing.T) {
	for path, text := range sourceFiles(t) {
		uses, allowed := bytes.Contains(text, []byte("runtime.GOOS")), slices.Contains(byName, path)
		switch {
		case uses && !allowed:
			t.Errorf("%s uses runtime.GOOS: put what differs in a file by build tag, as docs/architecture.md lists them", path)
		case allowed && !uses:
			t.Errorf("%s no longer uses runtime.GOOS: remove it from this test", path)
		case decision.Match(text):
			t.Errorf("%s compares runtime.GOOS: put what differs in a file by build tag, or pass the name on", path)
		}
	}
}

// TestTheArchitecturePageHasEverySystemDifference: the page has the packages that have files
// for Windows or macOS.
func TestTheArchitecturePageHasEverySystemDifference(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Differences between systems")
	table, _, _ = strings.Cut(table, "\n## ")
	for path := range sourceFiles(t) {
		for _, suffix := range []string{"_windows.go", "_darwin.go"} {
			if noun, ok := strings.CutSuffix(path, suffix); ok && !strings.Contains(table, "| `"+noun+"` |") {
				t.Errorf("docs/architecture.md has no row for %s", path)
			}
		}
	}
}

// TestArchitectureNames: `sched.Pick` on the page is an exported name of a package sched.
func TestArchitectureNames(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{}
	for file, text := range sourceFiles(t) {
		packages[path.Base(path.Dir(file))] += string(text)
	}
	seen := 0
	for _, m := range regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w+)").FindAllStringSubmatch(string(page), -1) {
		code, found := packages[m[1]]
		if !found || m[1] == "tide" {
			continue
		}
		seen++
		if !regexp.MustCompile(`(?m)^(func (\(.*?\) )?|type |var |const |\t)` + m[2] + `\b`).MatchString(code) {
			t.Errorf("docs/architecture.md names %s.%s, and package %s has no such name", m[1], m[2], m[1])
		}
	}
	if seen < 15 {
		t.Errorf("only %d names were found: the page is not read right", seen)
	}
}
