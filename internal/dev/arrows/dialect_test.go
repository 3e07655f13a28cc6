package arrows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// nameWord matches a word of a test's name.
var nameWord = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[0-9]+`)

const (
	// maxNameWords is how many words the name of a test may have: the noun, and what of it. The rest is a subtest.
	maxNameWords = 5
	// longNames are the tests with more, conditionSwitches the switches without a value that they look at, which are
	// for tables. Both were there before, and only fall.
	longNames         = 720
	conditionSwitches = 496
)

func TestDialect(t *testing.T) {
	names, switches := 0, 0
	for _, files := range testFiles(t) {
		for _, file := range files {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && len(nameWord.FindAllString(f.Name.Name[4:], -1)) > maxNameWords {
					names++
				}
			}
		}
	}
	for _, text := range sourceFiles(t) {
		tree, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SwitchStmt); ok && s.Tag == nil {
				switches++
			}
			return true
		})
	}
	if names != longNames {
		t.Errorf("%d tests have a sentence as name, not %d: begin with the noun, and say the rest in a subtest; fewer: write that here", names, longNames)
	}
	if switches != conditionSwitches {
		t.Errorf("%d switches look at conditions, not %d: return early, unless it is a table; fewer: write that here", switches, conditionSwitches)
	}
}
