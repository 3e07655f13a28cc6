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
	allLines   = 62769
	otherLines = 4810
)

// largeTypes are those that were beyond the limits when these were set: files with methods, and methods.
var largeTypes = map[string]size{
	"cmd/tunctl.invocation":      {9, 29},
	"configs.Site":               {10, 24},
	"internal/agent.server":      {9, 38},
	"internal/agent/hosts.Hosts": {9, 38},
	"internal/lab.Cluster":       {14, 54},
	"internal/lab.call":          {9, 29},
}

// sizes are how large each package is.
var sizes = map[string]size{
	"cmd/tunctl":               {50, 6021},
	"configs":                  {32, 3488},
	"internal/action":          {4, 219},
	"internal/agent":           {11, 1320},
	"internal/agent/events":    {3, 280},
	"internal/agent/facts":     {5, 594},
	"internal/agent/forwards":  {4, 469},
	"internal/agent/hosts":     {9, 780},
	"internal/agent/jobnode":   {1, 281},
	"internal/agent/ledger":    {8, 1193},
	"internal/agent/logs":      {2, 178},
	"internal/agent/passwords": {1, 87},
	"internal/agent/probe":     {7, 901},
	"internal/agent/run":       {3, 561},
	"internal/agent/session":   {18, 2254},
	"internal/agent/settings":  {3, 207},
	"internal/agent/socket":    {1, 171},
	"internal/agent/state":     {4, 848},
	"internal/agent/stream":    {1, 176},
	"internal/agent/submit":    {6, 595},
	"internal/api":             {28, 1389},
	"internal/atomicfile":      {3, 89},
	"internal/autostart":       {8, 734},
	"internal/client":          {7, 632},
	"internal/cmdline":         {4, 703},
	"internal/ctxtime":         {2, 38},
	"internal/dashboard":       {7, 767},
	"internal/desktop":         {15, 923},
	"internal/doctor":          {6, 518},
	"internal/editor":          {1, 155},
	"internal/freeport":        {3, 23},
	"internal/gateway":         {3, 304},
	"internal/home":            {11, 310},
	"internal/latest":          {1, 8},
	"internal/lists":           {1, 8},
	"internal/localapi":        {1, 135},
	"internal/localsocket":     {4, 383},
	"internal/mcp":             {2, 367},
	"internal/netwatch":        {3, 149},
	"internal/nowindow":        {3, 16},
	"internal/peer":            {9, 348},
	"internal/posixsh":         {1, 39},
	"internal/setup":           {11, 1687},
	"internal/show":            {11, 1184},
	"internal/suggest":         {1, 91},
	"internal/term":            {11, 771},
	"internal/transfer":        {12, 1493},
	"internal/usage":           {6, 683},
	"internal/watchui":         {10, 1335},
	"internal/words":           {1, 116},
	"jobwatch":                 {21, 2638},
	"jobwatch/detect":          {14, 2337},
	"jobwatch/gridengine":      {7, 1190},
	"jobwatch/joblog":          {6, 924},
	"jobwatch/pbs":             {7, 1217},
	"jobwatch/plain":           {1, 185},
	"jobwatch/remote":          {4, 255},
	"jobwatch/sched":           {11, 939},
	"jobwatch/slurm":           {9, 1327},
	"tray":                     {17, 2020},
	"tunnel":                   {23, 4771},
	"tunnel/channels":          {1, 179},
	"tunnel/failure":           {4, 187},
	"tunnel/forward":           {14, 2260},
	"tunnel/hostkey":           {3, 706},
	"tunnel/node":              {8, 1373},
	"tunnel/openssh":           {7, 333},
	"tunnel/pace":              {2, 563},
	"tunnel/retry":             {2, 330},
	"tunnel/sshconfig":         {8, 958},
	"tunnel/step":              {6, 1181},
	"tunnel/tcpinfo":           {5, 92},
	"tunnel/userkeys":          {9, 783},
}
