package messages

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// message is an error message in the code. What is only known when it happens is "…".
type message struct {
	text, hint, code string
	where            string // the package
	whole            bool   // it is shown as it is; else it stands within another
}

// skipped are folders whose errors no person meets: tests, and the practice cluster.
var skipped = []string{".git", "bin", "testdata", "lab", "e2e", "realtest", "bustest", "messages", "arrows", "testprogram", "testreport"}

// collect reads the messages of all packages under root.
func collect(t *testing.T, root string) []message {
	t.Helper()
	var all []message
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range fromFile(file) {
			m.where = filepath.ToSlash(dir)
			all = append(all, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b message) int {
		return cmp.Or(strings.Compare(a.text, b.text), strings.Compare(a.where, b.where), strings.Compare(a.hint, b.hint))
	})
	return slices.Compact(all)
}

func fromFile(file *ast.File) []message {
	var found []message
	add := func(m message) {
		m.text, m.hint = tidy(m.text), tidy(m.hint)
		if letters.MatchString(m.text) { // else it is made of others
			found = append(found, m)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CompositeLit:
			add(fromError(x))
			for _, text := range fromEnds(x) {
				add(message{text: text, whole: true})
			}
		case *ast.AssignStmt:
			if isMessage(x.Lhs[0]) && len(x.Rhs) == 1 && x.Tok != token.ADD_ASSIGN {
				add(message{text: words(x.Rhs[0]), whole: true})
			}
		case *ast.CallExpr:
			add(fromCall(x))
		}
		return true
	})
	return found
}

// isMessage reports whether a variable or a field is called so.
func isMessage(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name == "message"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Message"
	}
	return false
}

var letters = regexp.MustCompile(`\pL{3}`)

// makers are the functions that make an error of a message, by which of their
// arguments are the message and the hint.
var makers = map[string]struct {
	text, hint int
	code       string
	whole      bool
}{
	"usagef":        {0, -1, "CodeUsage", true},
	"refuse":        {0, 1, "CodeHostKey", true},
	"deny":          {0, -1, "CodeNeedsPerson", false},
	"needsPerson":   {0, -1, "CodeNeedsPerson", false},
	"complain":      {2, 1, "CodeConfig", true},
	"complainWhole": {1, 0, "CodeConfig", true},
	"errors.New":    {0, -1, "", false},
	"fmt.Errorf":    {0, -1, "", false},
}

func fromCall(call *ast.CallExpr) message {
	name := called(call)
	if _, method, ok := strings.Cut(name, "."); ok && method != "New" && method != "Errorf" {
		name = method
	}
	maker, ok := makers[name]
	if !ok || len(call.Args) <= max(maker.text, maker.hint) {
		return message{}
	}
	m := message{text: words(call.Args[maker.text]), code: maker.code, whole: maker.whole}
	if maker.hint >= 0 {
		m.hint = words(call.Args[maker.hint])
	}
	return m
}

// fromEnds reads a map from how a job ended to words.
func fromEnds(lit *ast.CompositeLit) []string {
	typ, ok := lit.Type.(*ast.MapType)
	if !ok {
		return nil
	}
	if key, ok := typ.Key.(*ast.SelectorExpr); !ok || key.Sel.Name != "JobState" {
		return nil
	}
	var texts []string
	for _, e := range lit.Elts {
		texts = append(texts, words(e.(*ast.KeyValueExpr).Value))
	}
	return texts
}

// fromError reads an api.Error{Code: …, Message: …, Hint: …}.
func fromError(lit *ast.CompositeLit) message {
	typ, ok := lit.Type.(*ast.SelectorExpr)
	if !ok || typ.Sel.Name != "Error" {
		return message{}
	}
	if pkg, ok := typ.X.(*ast.Ident); !ok || pkg.Name != "api" {
		return message{}
	}
	m := message{whole: true}
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch kv.Key.(*ast.Ident).Name {
		case "Message":
			m.text = words(kv.Value)
		case "Hint":
			m.hint = words(kv.Value)
		case "Code":
			if sel, ok := kv.Value.(*ast.SelectorExpr); ok {
				m.code = sel.Sel.Name
			}
		}
	}
	return m
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if pkg, ok := f.X.(*ast.Ident); ok {
			return pkg.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// words is an expression as far as it is known beforehand.
func words(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil {
			return verb.ReplaceAllString(text, "…")
		}
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			return words(x.X) + words(x.Y)
		}
	case *ast.CallExpr:
		if called(x) == "fmt.Sprintf" {
			return words(x.Args[0])
		}
	}
	return "…"
}

var verb = regexp.MustCompile(`%[-+# 0]*\d*(?:\.\d+)?[a-zA-Z]`)

// tidy makes one line of a text, and one … of several.
func tidy(text string) string {
	text = strings.ReplaceAll(text, "%%", "%")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "……", "…")), " ")
}
