package arrows

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// compared is a comparison with the name of a scheduler.
var compared = regexp.MustCompile(`(?:[!=]= |case [^:\n]*)"(slurm|pbs|gridengine)"`)

// TestOnlyItsPackageComparesWithTheNameOfAScheduler: others ask its sched.Kind. The practice cluster
// plays schedulers, and may.
func TestOnlyItsPackageComparesWithTheNameOfAScheduler(t *testing.T) {
	for file, text := range sourceFiles(t) {
		for _, m := range compared.FindAllSubmatch(text, -1) {
			if name := string(m[1]); path.Dir(file) != "jobwatch/"+name && !strings.HasPrefix(file, "internal/lab/") {
				t.Errorf("%s compares with %q: ask the kind of the scheduler instead", file, name)
			}
		}
	}
}
