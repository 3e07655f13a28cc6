package arrows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// nameWord matches a word of a test's name.
var nameWord = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[0-9]+`)

// maxNameWords is how many words the name of a test may have: the noun, and what of it. The sentence is a subtest.
const maxNameWords = 5

// TestDialect: new tests are named by their noun, and a switch over conditions is for tables. What was there before
// is counted by package, and only falls.
func TestDialect(t *testing.T) {
	long := map[string]int{}
	for folder, files := range testFiles(t) {
		for _, file := range files {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					if name, is := strings.CutPrefix(f.Name.Name, "Test"); is && len(nameWord.FindAllString(name, -1)) > maxNameWords {
						long[folder]++
					}
				}
			}
		}
	}
	onlyFalls(t, "tests with a sentence as name: begin with the noun, and say the rest in a subtest", long, longNames)

	branches := map[string]int{}
	for file, text := range sourceFiles(t) {
		tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SwitchStmt); ok && s.Tag == nil {
				branches[path.Dir(file)]++
			}
			return true
		})
	}
	onlyFalls(t, "switches over conditions: return early, unless it is a table", branches, conditionSwitches)
}

// onlyFalls compares numbers by package with the table that has them, which says less after each improvement.
func onlyFalls(t *testing.T, what string, got, table map[string]int) {
	t.Helper()
	for folder, n := range got {
		if n > table[folder] {
			t.Errorf("%s has %d %s (%d are known)", folder, n, what, table[folder])
		}
	}
	for folder, known := range table {
		if got[folder] < known {
			t.Errorf("%s: now %d, not %d: lower it in this test (%s)", folder, got[folder], known, what)
		}
	}
}

// longNames are how many tests of a package have more words in their name.
var longNames = map[string]int{
	"cmd/tunctl":               29,
	"configs":                  89,
	"internal/action":          4,
	"internal/agent/events":    7,
	"internal/agent/facts":     10,
	"internal/agent/forwards":  6,
	"internal/agent/hosts":     6,
	"internal/agent/jobnode":   1,
	"internal/agent/ledger":    7,
	"internal/agent/logs":      3,
	"internal/agent/passwords": 1,
	"internal/agent/probe":     17,
	"internal/agent/run":       11,
	"internal/agent/session":   15,
	"internal/agent/settings":  1,
	"internal/agent/state":     11,
	"internal/agent/submit":    6,
	"internal/api":             12,
	"internal/cmdline":         2,
	"internal/ctxtime":         2,
	"internal/dashboard":       1,
	"internal/dev/arrows":      5,
	"internal/dev/e2e":         31,
	"internal/dev/ptytest":     2,
	"internal/dev/real":        11,
	"internal/dev/realjobs":    5,
	"internal/dev/realssh":     18,
	"internal/dev/release":     26,
	"internal/dev/testreport":  5,
	"internal/dev/winetest":    11,
	"internal/dev/wording":     5,
	"internal/doctor":          3,
	"internal/lab":             13,
	"internal/mcp":             8,
	"internal/setup":           9,
	"internal/show":            15,
	"internal/suggest":         1,
	"internal/transfer":        6,
	"jobwatch":                 20,
	"jobwatch/detect":          28,
	"jobwatch/gridengine":      9,
	"jobwatch/joblog":          7,
	"jobwatch/pbs":             13,
	"jobwatch/remote":          7,
	"jobwatch/slurm":           14,
	"tunnel":                   31,
	"tunnel/channels":          8,
	"tunnel/failure":           1,
	"tunnel/forward":           68,
	"tunnel/hostkey":           2,
	"tunnel/node":              37,
	"tunnel/openssh":           6,
	"tunnel/pace":              3,
	"tunnel/retry":             3,
	"tunnel/sshconfig":         12,
	"tunnel/step":              42,
	"tunnel/tcpinfo":           1,
	"tunnel/userkeys":          5,
}

// conditionSwitches are how many switches of a package have no value that they look at.
var conditionSwitches = map[string]int{
	"cmd/tunctl":               47,
	"configs":                  30,
	"internal/action":          5,
	"internal/agent":           11,
	"internal/agent/events":    2,
	"internal/agent/facts":     17,
	"internal/agent/forwards":  6,
	"internal/agent/hosts":     2,
	"internal/agent/jobnode":   2,
	"internal/agent/ledger":    18,
	"internal/agent/logs":      1,
	"internal/agent/passwords": 2,
	"internal/agent/probe":     8,
	"internal/agent/run":       7,
	"internal/agent/session":   17,
	"internal/agent/state":     4,
	"internal/agent/stream":    1,
	"internal/agent/submit":    3,
	"internal/api":             4,
	"internal/autostart":       1,
	"internal/client":          3,
	"internal/cmdline":         7,
	"internal/dashboard":       4,
	"internal/desktop":         7,
	"internal/doctor":          8,
	"internal/gateway":         1,
	"internal/lab":             31,
	"internal/localsocket":     2,
	"internal/mcp":             2,
	"internal/setup":           19,
	"internal/show":            18,
	"internal/term":            3,
	"internal/transfer":        15,
	"internal/usage":           5,
	"internal/watchui":         17,
	"internal/words":           3,
	"jobwatch":                 9,
	"jobwatch/detect":          15,
	"jobwatch/gridengine":      17,
	"jobwatch/joblog":          3,
	"jobwatch/pbs":             18,
	"jobwatch/plain":           1,
	"jobwatch/remote":          2,
	"jobwatch/sched":           6,
	"jobwatch/slurm":           6,
	"tray":                     17,
	"tunnel":                   29,
	"tunnel/channels":          1,
	"tunnel/failure":           1,
	"tunnel/forward":           20,
	"tunnel/hostkey":           4,
	"tunnel/node":              20,
	"tunnel/openssh":           1,
	"tunnel/pace":              3,
	"tunnel/retry":             1,
	"tunnel/sshconfig":         3,
	"tunnel/step":              5,
	"tunnel/userkeys":          6,
}
