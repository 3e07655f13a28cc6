package wording

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"tunctl/internal/term"
)

func TestDocumentationAndTemplatesUsePlainWords(t *testing.T) {
	complain(t, pages(t), Find)
}

func TestTheSourceUsesPlainWords(t *testing.T) {
	literals, comments := source(t)
	t.Run("strings", func(t *testing.T) { complain(t, literals, Find) })
	t.Run("comments", func(t *testing.T) { complain(t, comments, findInComment) })
}

// screen keeps what a terminal would show.
type screen struct{ strings.Builder }

func (*screen) Read([]byte) (int, error) { return 0, io.EOF }
func (*screen) Close() error             { return nil }
func (*screen) Fd() uintptr              { return ^uintptr(0) }

// TestEverySymbolHasAnASCIIForm is for terminals whose locale is C.
func TestEverySymbolHasAnASCIIForm(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	literals, _ := source(t)
	elsewhere := regexp.MustCompile(`^(internal/(dev|desktop|lab|term/output)|tray|jobwatch/detect|configs/(parse|source))\b`) // never in a terminal, or read
	for _, p := range literals {
		var shown screen
		term.New(nil, nil, &shown).Say("%s", p.text)
		at := strings.IndexFunc(shown.String(), func(r rune) bool { return r >= utf8.RuneSelf })
		if at >= 0 && !elsewhere.MatchString(p.file) {
			t.Errorf("%s:%d: LC_ALL=C shows %q", p.file, p.line(0), shown.String()[at:])
		}
	}
}

func complain(t *testing.T, passages []passage, find func(string) []Finding) {
	t.Helper()
	for _, p := range passages {
		for _, f := range find(p.text) {
			t.Errorf("%s:%d: %s", p.file, p.line(f.Offset), f)
		}
	}
}

// TestNoErrorBeginsWithIt is for those who read an error in a log, where nothing says what
// "it" is.
func TestNoErrorBeginsWithIt(t *testing.T) {
	set := token.NewFileSet()
	for _, path := range files(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, lit := range errorTexts(n) {
				if strings.HasPrefix(lit.Value, `"it `) || strings.HasPrefix(lit.Value, `"its `) {
					t.Errorf("%s:%d: %s: begin with what failed, not with \"it\"", name(path), set.Position(lit.Pos()).Line, lit.Value)
				}
			}
			return true
		})
	}
}

// errorTexts are the strings of a call that makes an error, or of a field with the text of
// one, such as Message of api.Error.
func errorTexts(n ast.Node) []*ast.BasicLit {
	var from []ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		if makesError(n.Fun) {
			from = n.Args
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Message" || key.Name == "Cause") {
			from = []ast.Expr{n.Value}
			if call, ok := n.Value.(*ast.CallExpr); ok { // fmt.Sprintf
				from = call.Args
			}
		}
	}
	var texts []*ast.BasicLit
	for _, e := range from {
		if lit, ok := e.(*ast.BasicLit); ok {
			texts = append(texts, lit)
		}
	}
	return texts
}

// makesError reports whether a function is errors.New or one whose name ends like
// fmt.Errorf and api.Errorf.
func makesError(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(f.Name), "errorf")
	case *ast.SelectorExpr:
		pkg, _ := f.X.(*ast.Ident)
		return strings.HasSuffix(f.Sel.Name, "Errorf") || pkg != nil && pkg.Name == "errors" && f.Sel.Name == "New"
	}
	return false
}

func TestAPhraseIsFoundHoweverItIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"the disk is to be mended":            "mended",
		"Mend the disk":                       "Mend",
		"over the login\n  there is":          "the login\n  there is",
		"amend, recommend, mendicant":         "",
		"the key `mend` is now `fix`":         "",
		"%d h %d min":                         "%d h %d min",
		"%d h %02d min":                       "",
		"to bring up a session":               "",
		"Bring up":                            "Bring up",
		"is wellknown":                        "",
		"time limit of job %s stays: %w":      "time limit of job %s stays",
		"which is one too many for this site": "is one too many",
	} {
		var got []string
		for _, f := range Find(text) {
			got = append(got, f.Words)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("Find(%q) found %q, want %q", text, got, want)
		}
	}
}

func TestEveryFindingIsGivenItsLine(t *testing.T) {
	literals, comments := read(t, "a.go", []byte(`package a

// What is in
// the way.
var a = f("over the "+
	"login there is", 1) + `+"`first\nanew`"+`

type b struct {
	C string `+"`json:\"mend\"`"+`
}
`))
	var got []string
	for _, p := range append(literals, comments...) {
		for _, f := range Find(p.text) {
			got = append(got, strings.Join(strings.Fields(f.Words), " ")+" "+string(rune('0'+p.line(f.Offset))))
		}
	}
	if want := "anew 7, the login there is 5, in the way 3"; strings.Join(got, ", ") != want {
		t.Errorf("found %q, want %q", strings.Join(got, ", "), want)
	}
}
