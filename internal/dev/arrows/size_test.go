package arrows

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// size is how large a package may be: files, and lines of code in them.
type size struct{ files, lines int }

// The limits on types. A type beyond them is a missing wall.
const (
	maxMethods     = 50
	maxMethodFiles = 8
)

// codeLine matches a line that is neither empty nor only a comment.
var codeLine = regexp.MustCompile(`(?m)^\s*[^\s/]|^\s*/[^/]`)

// TestSize: what grows is raised here, in a commit that says why.
func TestSize(t *testing.T) {
	t.Run("of each package", func(t *testing.T) {
		got, sum := map[string]size{}, 0
		for file, text := range sourceFiles(t) {
			if strings.HasPrefix(file, "internal/lab/") {
				continue
			}
			lines := len(codeLine.FindAll(text, -1))
			s := got[path.Dir(file)]
			got[path.Dir(file)], sum = size{s.files + 1, s.lines + lines}, sum+lines
		}
		for name, is := range got {
			if most := sizes[name]; is.files > most.files || is.lines > most.lines {
				t.Errorf("%s has %d files and %d lines of code, and may have %d and %d", name, is.files, is.lines, most.files, most.lines)
			}
		}
		for name := range sizes {
			if got[name].files == 0 {
				t.Errorf("%s does not exist: remove it here", name)
			}
		}
		if sum > allLines {
			t.Errorf("the program has %d lines of Go, and may have %d", sum, allLines)
		}
	})
	t.Run("of what is not Go", func(t *testing.T) {
		sum := 0
		err := fs.WalkDir(os.DirFS("../../.."), ".", func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			skipped := []string{".git", "artifacts", "bin", "dist", "packaging", "internal/dev", "internal/lab"}
			if d.IsDir() && (slices.Contains(skipped, file) || d.Name() == "testdata") {
				return fs.SkipDir
			}
			if slices.Contains([]string{".py", ".js", ".css", ".html", ".tmpl", ".sh", ".txt"}, path.Ext(file)) {
				text, err := os.ReadFile("../../../" + file)
				sum += strings.Count(string(text), "\n")
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if sum > otherLines {
			t.Errorf("Python, JavaScript, CSS, HTML, texts and templates have %d lines, and may have %d", sum, otherLines)
		}
	})
}

// TestTypes: no type has methods all over its package, and no lock is in other hands.
func TestTypes(t *testing.T) {
	type methods struct {
		count int
		files map[string]bool
	}
	types := map[string]*methods{}
	for file, text := range sourceFiles(t) {
		tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				name := path.Dir(file) + "." + receiver(f.Recv.List[0].Type)
				if types[name] == nil {
					types[name] = &methods{files: map[string]bool{}}
				}
				types[name].count++
				types[name].files[file] = true
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if isExportedLock(f) {
						t.Errorf("%s: a struct has an exported mutex, which others may lock", file)
					}
				}
			}
			return true
		})
	}
	for name, m := range types {
		if most := cmp.Or(largeTypes[name], size{maxMethodFiles, maxMethods}); m.count > most.lines || len(m.files) > most.files {
			t.Errorf("%s has %d methods in %d files, and may have %d in %d", name, m.count, len(m.files), most.lines, most.files)
		}
	}
}

// isExportedLock reports whether a field is a mutex that another package can name: an exported or embedded one.
func isExportedLock(f *ast.Field) bool {
	s, ok := f.Type.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(s.Sel.Name, "Mutex") {
		return false
	}
	return len(f.Names) == 0 || slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.IsExported() })
}

// The sums. Moving lines from Go into other files changes only which sum has them.
const (
	allLines   = 63000
	otherLines = 5403
)

// largeTypes are those that were beyond the limits when these were set: files with methods, and methods.
var largeTypes = map[string]size{
	"cmd/tunctl.invocation": {9, 29},
	"internal/lab.Cluster":  {14, 54},
	"internal/lab.call":     {9, 29},
}

// sizes are how large each package is.
var sizes = map[string]size{
	"cmd/tunctl":               {50, 6909},
	"configs":                  {18, 3389},
	"internal/action":          {1, 217},
	"internal/agent":           {6, 1516},
	"internal/agent/events":    {1, 274},
	"internal/agent/facts":     {2, 631},
	"internal/agent/forwards":  {3, 441},
	"internal/agent/hosts":     {5, 1014},
	"internal/agent/jobnode":   {1, 302},
	"internal/agent/ledger":    {4, 1153},
	"internal/agent/logs":      {2, 284},
	"internal/agent/passwords": {1, 104},
	"internal/agent/probe":     {3, 927},
	"internal/agent/run":       {1, 556},
	"internal/agent/session":   {8, 2277},
	"internal/agent/settings":  {1, 161},
	"internal/agent/socket":    {1, 161},
	"internal/agent/state":     {4, 809},
	"internal/agent/submit":    {3, 544},
	"internal/api":             {10, 1490},
	"internal/atomicfile":      {3, 100},
	"internal/autostart":       {6, 618},
	"internal/client":          {4, 622},
	"internal/cmdline":         {3, 526},
	"internal/ctxtime":         {1, 48},
	"internal/dashboard":       {7, 781},
	"internal/desktop":         {8, 835},
	"internal/doctor":          {5, 495},
	"internal/editor":          {1, 179},
	"internal/freeport":        {3, 47},
	"internal/gateway":         {1, 290},
	"internal/home":            {7, 317},
	"internal/latest":          {1, 22},
	"internal/lists":           {1, 15},
	"internal/localapi":        {1, 145},
	"internal/localsocket":     {3, 372},
	"internal/logfile":         {1, 41},
	"internal/mcp":             {1, 345},
	"internal/netwatch":        {3, 140},
	"internal/nowindow":        {3, 16},
	"internal/output":          {1, 216},
	"internal/peer":            {7, 335},
	"internal/posixsh":         {1, 50},
	"internal/setup":           {8, 1704},
	"internal/show":            {7, 1265},
	"internal/suggest":         {1, 82},
	"internal/term":            {8, 669},
	"internal/transfer":        {8, 1379},
	"internal/usage":           {2, 652},
	"internal/watchui":         {7, 1342},
	"internal/words":           {1, 169},
	"jobwatch":                 {10, 2411},
	"jobwatch/detect":          {10, 2144},
	"jobwatch/gridengine":      {7, 1176},
	"jobwatch/joblog":          {4, 854},
	"jobwatch/pbs":             {6, 1200},
	"jobwatch/plain":           {1, 182},
	"jobwatch/remote":          {2, 243},
	"jobwatch/sched":           {6, 889},
	"jobwatch/slurm":           {6, 1278},
	"tray":                     {15, 1889},
	"tunnel":                   {16, 4600},
	"tunnel/channels":          {1, 168},
	"tunnel/failure":           {2, 177},
	"tunnel/forward":           {12, 2137},
	"tunnel/hostkey":           {3, 508},
	"tunnel/kernel":            {2, 292},
	"tunnel/node":              {8, 1461},
	"tunnel/openssh":           {7, 333},
	"tunnel/pace":              {2, 551},
	"tunnel/retry":             {1, 288},
	"tunnel/sshconfig":         {6, 915},
	"tunnel/step":              {7, 1366},
	"tunnel/tcpinfo":           {4, 81},
	"tunnel/userkeys":          {8, 730},
	"tunnel/websocket":         {1, 153},
}
