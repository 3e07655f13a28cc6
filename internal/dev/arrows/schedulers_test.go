package arrows

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOnlyItsPackageComparesWithTheNameOfAScheduler: others ask its sched.Kind. The practice cluster
// plays schedulers, and may.
func TestOnlyItsPackageComparesWithTheNameOfAScheduler(t *testing.T) {
	files := sourceFiles(t)
	var names []string
	for file, text := range files {
		if folder := path.Dir(file); strings.Contains(string(text), "var Kind = sched.Kind{") && folder != "jobwatch/plain" {
			names = append(names, path.Base(folder))
			if !slices.Contains(fromHosts, folder) {
				t.Errorf("%s reads what hosts send, and is not in fromHosts", folder)
			}
		}
	}
	if len(names) < 3 {
		t.Fatalf("only %q are schedulers", names)
	}
	compared := regexp.MustCompile(`(?:[!=]= |case [^:\n]*)"(` + strings.Join(names, "|") + `)"`)
	for file, text := range files {
		for _, m := range compared.FindAllSubmatch(text, -1) {
			if name := string(m[1]); path.Dir(file) != "jobwatch/"+name && !strings.HasPrefix(file, "internal/lab/") {
				t.Errorf("%s compares with %q: ask the kind of the scheduler instead", file, name)
			}
		}
	}
}
