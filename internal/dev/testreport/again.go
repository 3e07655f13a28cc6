package main

import (
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// tolerated is the share of the time that a host may keep its virtual machine waiting.
const tolerated = 0.05

// processors is how long the processors were used for what; see proc_stat(5).
type processors struct{ all, waited float64 }

// readProcessors is zero where the system does not tell.
func readProcessors() processors {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processors{}
	}
	return parseProcessors(string(text))
}

// parseProcessors reads the first line: user, nice, system, idle, iowait, irq, softirq, steal.
func parseProcessors(text string) processors {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return processors{}
	}
	var p processors
	for i, field := range fields[1:9] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return processors{}
		}
		p.all += n
		if i == 7 {
			p.waited = n
		}
	}
	return p
}

// waitedFor is the share of the time between two readings that the host took.
func (p processors) waitedFor(later processors) float64 {
	if later.all <= p.all {
		return 0
	}
	return (later.waited - p.waited) / (later.all - p.all)
}

// failures are the tests that failed, by package. An empty name is a package that failed as a
// whole.
type failures map[string][]string

// add adds a test, or the whole test that it is a part of.
func (f failures) add(at test) {
	name, _, _ := strings.Cut(at.name, "/")
	if !slices.Contains(f[at.pkg], name) {
		f[at.pkg] = append(f[at.pkg], name)
	}
}

// few reports whether tests failed that can run again: they are not many, and each is known.
func (f failures) few() bool {
	count := 0
	for _, names := range f {
		if slices.Contains(names, "") {
			return false
		}
		count += len(names)
	}
	return count > 0 && count <= 20
}

// runAlone runs what failed once more, one after the other.
func runAlone(argv []string, failed failures, out io.Writer) (code int, err error) {
	for _, pkg := range slices.Sorted(maps.Keys(failed)) {
		_, c, err := run(alone(argv, pkg, failed[pkg]), out)
		if code = max(code, c); err != nil {
			return code, err
		}
	}
	return code, nil
}

// alone is the command for some tests of one package.
func alone(argv []string, pkg string, names []string) []string {
	argv = slices.DeleteFunc(slices.Clone(argv), func(arg string) bool {
		return strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "tunctl/")
	})
	return append(argv, "-parallel", "1", "-run", "^("+strings.Join(names, "|")+")$", pkg)
}
