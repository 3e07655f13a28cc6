package configs

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// large are configs with n entries of one kind. In those for %d, each entry has a number.
var large = map[string]struct{ head, entry, tail string }{
	"forwards":           {"[session.a]\nhost='x'\nforward=[", "'%d:db:1',", "]"},
	"same forward":       {"[session.a]\nhost='x'\nforward=[", "'1:db:1',", "]"},
	"each forward again": {"[session.a]\nhost='x'\nforward=[\n", "'%[1]d:db:1',\n'%[1]d:db:1',\n", "]"},
	"interfaces":         {"[session.a]\nhost='x'\nforward=[", "'10.0.0.%d:1:db:1',", "]"},
	"bad forwards":       {"[session.a]\nhost='x'\nforward=[", "'%d',", "]"},
	"args":               {"[session.a]\nhost='x'\njob='y'\nargs=[", "'%d',", "]"},
	"kinds":              {"notify=[", "'ready',", "]"},
	"unknown kinds":      {"notify=[", "'r%d',", "]"},
	"lists in a list":    {"notify=[", "['ready'],", "]"},
	"tables in a list":   {"notify=[", "{a=1},", "]"},
	"patterns":           {"[app.a]\npatterns=[", "'(?P<port>%d)',", "]"},
	"unknown groups":     {"[app.a]\npatterns=['", "(?P<g%d>1)", "']"},
	"placeholders":       {"[session.a]\nhost='x'\njob='y'\nlog='", "{a%d}", "'"},
	"answers":            {"[session.a]\nhost='x'\nsubmit='builtin:jupyter'\n[session.a.with]\n", "k%d='x'\n", ""},
	"inline answers":     {"[session.a]\nhost='x'\nsubmit='builtin:jupyter'\nwith={", "k%d='x',", "last='x'}"},
	"dotted answers":     {"[session.a]\nhost='x'\nsubmit='builtin:jupyter'\n", "with.k%d='x'\n", ""},
	"hosts":              {"", "[host.h%d]\nsite='narval'\n", ""},
	"unknown sites":      {"", "[host.h%d]\nsite='narvil'\n", ""},
	"sessions":           {"", "[session.s%[1]d]\nhost='h%[1]d'\njob='x'\nlocal=%[1]d\n", ""},
	"sessions on a port": {"", "[session.s%d]\nhost='x'\njob='x'\nlocal=1\n", ""},
	"sessions on hosts":  {"", "[host.h%[1]d]\nscheduler='slurm'\n[session.s%[1]d]\nhost='h%[1]d'\nsubmit='builtin:jupyter'\n", ""},
	"misspelt hosts":     {"", "[host.narval%[1]d]\n[session.s%[1]d]\nhost='narvil%[1]d'\njob='x'\n", ""},
	"other hosts":        {"", "[host.narval%[1]d]\n[session.s%[1]d]\nhost='%[1]dx'\njob='x'\n", ""},
	"empty sessions":     {"", "[session.s%d]\n", ""},
	"apps":               {"", "[app.a%[1]d]\npatterns=['(?P<port>1)']\n[session.s%[1]d]\nhost='x'\njob='x'\napp='a%[1]d'\n", ""},
	"unknown apps":       {"", "[app.a%[1]d]\npatterns=['(?P<port>1)']\n[session.s%[1]d]\nhost='x'\njob='x'\napp='x%[1]d'\n", ""},
	"unknown keys":       {"[session.a]\nhost='x'\njob='y'\n", "k%d=1\n", ""},
	"unknown sections":   {"", "[k%d]\n", ""},
	"sections below":     {"", "[k.k%d]\n", ""},
	"same section":       {"", "[host.a]\n", ""},
	"same key":           {"", "notify=true\n", ""},
	"lists of sections":  {"", "[[host]]\n", ""},
	"lines":              {"", "\n", ""},
	"comments":           {"", "# a\n", "="},
	"bad lines":          {"", "=\n", ""},
	"open lists":         {"", "a=[\n", ""},
	"open texts":         {"", "a='\n", ""},
	"open long texts":    {"", "a='''\n", ""},
	"nested lists":       {"x=", "[", ""},
	"nested tables":      {"x=", "{x=", ""},
	"dotted key":         {"", "a.", "a=1"},
	"dotted section":     {"[session.", "a.", "a]"},
	"questions":          {"title='t'\n", "[question.q%d]\nask='x'\n", ""},
	"readers":            {"title='t'\nbalance=['x']\n", "[read.r%d]\ncommand='x'\npattern='(?P<used>1)'\nexample='1'\n", ""},
	"queues":             {"title='t'\n", "[queue.q%d]\nlimit='1h'\n", ""},
}

func largeText(name string, n int) string {
	var b strings.Builder
	b.WriteString(large[name].head)
	for i := range n {
		if strings.Contains(large[name].entry, "%") {
			fmt.Fprintf(&b, large[name].entry, i+1)
		} else {
			b.WriteString(large[name].entry)
		}
	}
	return b.String() + large[name].tail
}

// TestReadingSteps counts the steps of reading a config, as the compiler counts them for the
// coverage: twice the entries may take about twice the steps of each piece of code.
func TestReadingSteps(t *testing.T) {
	if os.Getenv("TUNCTL_STEPS") != "" {
		readLarge(t, "config.toml")
		return
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "steps.exe")
	build := exec.Command("go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-covermode=count",
		"-coverpkg=tunctl/configs,tunctl/internal/suggest,github.com/pelletier/go-toml/v2/unstable", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name := range large {
		t.Run(name, func(t *testing.T) {
			const n = 400
			once, twice := countSteps(t, program, largeText(name, n)), countSteps(t, program, largeText(name, 2*n))
			allOnce, allTwice := 0, 0
			for block, steps := range twice {
				if steps > 10*n && float64(steps) > 2.5*float64(once[block]) {
					t.Errorf("%s is run %d times for %d entries, and %d times for %d", block, once[block], n, steps, 2*n)
				}
				if searches(t, block) && steps > 5*maxErrors {
					t.Errorf("%s looks %d times at the whole text", block, steps)
				}
				allOnce += once[block]
				allTwice += steps
			}
			t.Logf("%d entries: %d steps; %d entries: %d steps", n, allOnce, 2*n, allTwice)
		})
	}
}

// readLarge reads a file as a config and as a site.
func readLarge(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Check(file, CheckOptions{Sites: Sites{{Name: "narval"}, {Name: "slurm", Scheduler: "slurm"}}, Aliases: []string{"alias"}})
	if err == nil {
		cfg.HostNames()
	}
	_, _ = parseSite(file, "large", data, func(string) (Site, bool) { return Site{}, false })
}

// countSteps is how often each piece of code is run to read a config.
func countSteps(t *testing.T, program, text string) map[string]int {
	t.Helper()
	dir := t.TempDir()
	profile := filepath.Join(dir, "profile")
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read := exec.Command(program, "-test.run", "^TestReadingSteps$", "-test.coverprofile", profile)
	read.Env, read.Dir = append(os.Environ(), "TUNCTL_STEPS=1"), dir
	out, err := read.CombinedOutput()
	counts, readErr := os.ReadFile(profile)
	if err := cmp.Or(err, readErr); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	steps := map[string]int{}
	for line := range strings.Lines(string(counts)) { // tunctl/configs/app.go:38.55,39.17 1 20
		words := strings.Fields(line)
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil && len(words) == 3 {
			steps[words[0]] += n
		}
	}
	return steps
}

// searches reports whether a piece of code begins a function that searches the whole text.
func searches(t *testing.T, block string) bool {
	t.Helper()
	file, place, _ := strings.Cut(block, ":")
	if file != "tunctl/configs/source.go" {
		return false
	}
	text, err := os.ReadFile("source.go")
	number, _, _ := strings.Cut(place, ".")
	line, _ := strconv.Atoi(number)
	if err != nil || line == 0 {
		t.Fatal(block, err)
	}
	begins := strings.Split(string(text), "\n")[line-1]
	return strings.HasPrefix(begins, "func (s *source) line(") || strings.Contains(begins, "bytes.Index(")
}
