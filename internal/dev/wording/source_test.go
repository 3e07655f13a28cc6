package wording

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// repository is the top of the source.
const repository = "../../.."

// passage is a text that belongs together: a string with what is joined to it, a comment,
// a whole page.
type passage struct {
	file string
	text string
	line func(offset int) int
}

// skipped are the folders without texts of ours, or with what programs write.
var skipped = []string{"testdata", "bin", "dist", "artifacts", "cover"}

// files are the paths of all files of the product, tests left out.
func files(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != repository && (strings.HasPrefix(name, ".") || slices.Contains(skipped, name)):
			return filepath.SkipDir
		case d.IsDir() && path == filepath.Join(repository, "internal", "dev", "wording"):
			return filepath.SkipDir // the list itself
		case d.Type().IsRegular() && !strings.HasSuffix(name, "_test.go"):
			list = append(list, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 200 {
		t.Fatalf("only %d files were found: the source is not read right", len(list))
	}
	return list
}

// textual are the endings of the files that are not Go and that people read: pages, site
// files and examples, scripts and templates, completions, packages.
var textual = []string{
	".md", ".txt", ".toml", ".tmpl", ".sh", ".html", ".css", ".js", ".pbs", ".slurm", ".yaml", ".yml", ".desktop", ".service",
	"Makefile", "bash", "zsh", "fish", "powershell", "copyright",
}

// pages are the texts that are not Go.
func pages(t *testing.T) []passage {
	t.Helper()
	var list []passage
	for _, path := range files(t) {
		if !slices.ContainsFunc(textual, func(ending string) bool { return strings.HasSuffix(path, ending) }) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, passage{name(path), string(text), func(offset int) int {
			return 1 + bytes.Count(text[:offset], []byte("\n"))
		}})
	}
	return list
}

// source are the strings and the comments of the program.
func source(t *testing.T) (literals, comments []passage) {
	t.Helper()
	for _, path := range files(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		l, c := read(t, name(path), text)
		literals, comments = append(literals, l...), append(comments, c...)
	}
	return literals, comments
}

func name(path string) string {
	rel, err := filepath.Rel(repository, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// read takes the strings and the comments out of a Go file.
func read(t *testing.T, file string, text []byte) (literals, comments []passage) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	line := func(at token.Pos) int { return set.Position(at).Line }
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil // it has names of keys
		case *ast.BinaryExpr, *ast.BasicLit:
			s := joined{line: line}
			s.add(n.(ast.Expr))
			if len(s.pieces) > 0 {
				literals = append(literals, passage{file, s.text.String(), s.lineOf})
			}
			for _, other := range s.others {
				ast.Inspect(other, visit)
			}
			return false
		}
		return true
	}
	ast.Inspect(f, visit)
	for _, group := range f.Comments {
		comments = append(comments, passage{file, commentText(group), func(offset int) int {
			return line(group.Pos()) + strings.Count(commentText(group)[:offset], "\n")
		}})
	}
	return literals, comments
}

// joined is the text of strings that are added up; … stands for what is no literal.
type joined struct {
	text   strings.Builder
	pieces []piece
	others []ast.Expr // what is no literal
	line   func(token.Pos) int
}

type piece struct {
	at      int // where in the text it begins
	literal *ast.BasicLit
}

func (j *joined) add(e ast.Expr) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		j.add(e.X)
	case *ast.BinaryExpr:
		j.add(e.X)
		j.add(e.Y)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			j.pieces = append(j.pieces, piece{j.text.Len(), e})
			j.text.WriteString(text)
		}
	default:
		j.others = append(j.others, e)
		j.text.WriteString("…")
	}
}

// lineOf is the line of the source that a place in the text is on.
func (j *joined) lineOf(offset int) int {
	in := j.pieces[0]
	for _, p := range j.pieces {
		if p.at <= offset {
			in = p
		}
	}
	line := j.line(in.literal.Pos())
	if strings.HasPrefix(in.literal.Value, "`") {
		line += strings.Count(j.text.String()[in.at:offset], "\n")
	}
	return line
}

// commentText is a comment without its marks, a line of it for each of the source.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		text := strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
		lines = append(lines, strings.TrimPrefix(text, "//"))
	}
	return strings.Join(lines, "\n")
}
