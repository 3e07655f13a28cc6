package arrows

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/wait"
)

// measuring are the folders whose purpose is to measure or to run for a time that is given.
var measuring = []string{"internal/dev/bench/", "internal/dev/soak/", "internal/dev/real/cmd/"}

// clocked are the places in tests that seem to depend on the real clock, by why no busy machine makes them fail.
var clocked = map[string][]string{
	"it runs in testing/synctest, which is not seen from the source": {
		"internal/agent/modelcluster_test.go run: time.Sleep",
		"internal/agent/modelcluster_test.go submit: time.Sleep",
		"internal/agent/modelcluster_test.go submit: time.Until",
		"internal/dev/steptest/job.go expire: time.Since",
		"internal/dev/steptest/job.go newLasting: time.AfterFunc",
		"jobwatch/pbsserver_test.go Run: time.Sleep",
		"jobwatch/watch_test.go Run: time.Sleep",
		"tunnel/login_test.go pushing: time.Sleep",
		"tunnel/loginpage_test.go TestLoginPage: time.Sleep",
		"tunnel/retry_test.go TestBrokenLogin: time.AfterFunc",
		"tunnel/stall_test.go awaitHost: time.After",
		"tunnel/stall_test.go awaitHost: time.Since",
	},
	"the limit is what ends it: nothing else can": {
		"internal/client/dial_test.go TestHungAgentOwnDeadline: context.WithTimeout",
		"internal/desktop/dialog_test.go TestAskContextEnd: context.WithTimeout",
		"internal/desktop/notify_dbus_test.go TestSessionBusMute: context.WithTimeout",
		"internal/localsocket/localsocket_test.go TestReadDeadline: Add",
		"tunnel/forward/relay_test.go TestASlowReaderStopsTheSender: Add",
	},
	"a lower bound, which a busy machine keeps": {
		"internal/dev/real/lab_test.go TestLabLeavesNothingBehind: time.Since",
		"internal/lab/faults_test.go TestASlowClusterDelaysBothDirections: time.Since",
	},
	"when a fault happens or how long it lasts: what is tested holds for any time": {
		"internal/agent/up_test.go TestUpToPage: context.WithTimeout",
		"internal/atomicfile/atomicfile_windows_test.go TestWriteWhileRead: time.AfterFunc",
		"internal/dev/e2e/campaign_acts_test.go restartAgent: time.AfterFunc",
		"internal/dev/e2e/onelogin_test.go pause: context.WithTimeout",
		"internal/dev/realjobs/slurm_test.go TestAStuckControllerMakesOneJobUnderARealSlurm: time.AfterFunc",
		"internal/dev/realssh/stall_test.go TestALinkThatLosesThirtyPercentIsNoFalseAlarm: context.WithTimeout",
		"internal/agent/serving_test.go requestPage: Timeout",
		"jobwatch/submitcut_test.go Run: time.After",
		"tunnel/forward/warm_test.go serve: Add",
		"tunnel/step/resume_test.go TestHold: time.Sleep",
	},
	"the pause of a loop of its callers, or a try that is repeated": {
		"internal/dev/chromium/chromium.go Until: context.WithTimeout",
		"tunnel/sshconfig/sshg_test.go TestSSHGIsToldApartBySpeedAndByWhatItSays: Timeout",
		"internal/dev/desktest/desktest.go pause: time.After",
		"internal/dev/e2e/cut_test.go connect: context.WithTimeout",
		"internal/dev/real/code.go Code: time.Sleep",
	},
	"all callers wait for at least two minutes": {
		"internal/dev/realjobs/slurm_test.go awaitFor: time.After",
	},
	"only shown, or a link's own delay": {
		"internal/dev/real/delay.go passOn: time.Sleep",
		"internal/dev/real/delay.go passOn: time.Until",
		"internal/dev/real/suite.go start: time.Since",
		"tray/screenshots_test.go TestMenuOnARealPanel: time.Since",
	},
	"`make campaign` measures it; it is not in `make test`": {
		"internal/dev/e2e/campaign_test.go await: context.WithTimeout",
	},
}

// TestClock refuses what makes a test depend on the speed of the machine: outside of testing/synctest,
// a look at the time that passed, a limit below two minutes, and a sleep that is not the pause of a loop.
func TestClock(t *testing.T) {
	known := map[string]int{}
	for _, places := range clocked {
		for _, place := range places {
			known[place]++
		}
	}
	for folder, files := range testFiles(t) {
		for place, positions := range newClock(files).places(folder) {
			if len(positions) > known[place] {
				t.Errorf("%s uses the real clock %d times, not %d (%s): wait for the event, simulate the time (testing/synctest), count steps, "+
					"or wait for two minutes", place, len(positions), known[place], strings.Join(positions, ", "))
			}
			known[place] -= min(known[place], len(positions))
		}
	}
	for place, left := range known {
		if left > 0 {
			t.Errorf("%s is gone: remove it from this test", place)
		}
	}
}

func TestClockSees(t *testing.T) {
	for text, want := range map[string]int{
		"func TestX(t *testing.T) { if time.Since(began) > 20*time.Second { t.Error() } }":                           1,
		"func TestX(t *testing.T) { if time.Since(began) > limit { t.Error() } }\nconst limit = 2 * time.Minute":     0,
		"func TestX(t *testing.T) { t.Logf(\"%v\", time.Since(began)) }":                                             0,
		"func TestX(t *testing.T) { select { case <-c: case <-time.After(time.Minute): t.Fatal() } }":                1,
		"func TestX(t *testing.T) { select { case <-c: case <-time.After(wait.Limit): t.Fatal() } }":                 0,
		"func TestX(t *testing.T) { for { select { case <-c: case <-time.After(time.Second): } } }":                  0,
		"func TestX(t *testing.T) { time.Sleep(time.Second) }":                                                       1,
		"func TestX(t *testing.T) { for !is() { time.Sleep(time.Second) } }":                                         0,
		"func TestX(t *testing.T) { for range 50 { time.Sleep(time.Second) } }":                                      1,
		"func TestX(t *testing.T) { for i := 0; i < 50; i++ { time.Sleep(time.Second) } }":                           1,
		"func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(time.Second) }) }":              0,
		"func TestX(t *testing.T) { context.WithTimeout(t.Context(), time.Minute) }":                                 1,
		"func TestX(t *testing.T) { c.SetDeadline(time.Now().Add(d)); x.At = time.Now().Add(d) }":                    1,
		"func TestX(t *testing.T) { _ = http.Client{Timeout: time.Minute} }":                                         1,
		"func TestX(t *testing.T) { help() }\nfunc help() { time.Sleep(time.Second) }":                               1,
		"func TestX(t *testing.T) { bubble(help) }\nfunc help() { time.Sleep(time.Second) }\n" + aBubble:             0,
		"func TestX(t *testing.T) { _ = fake{} }\ntype fake struct{}\nfunc (fake) Run() { time.Sleep(time.Second) }": 1,
	} {
		file, err := parser.ParseFile(positions, "p/x_test.go", "package p\n"+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := newClock([]*ast.File{file}).places("p"); len(got) != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}

const aBubble = "func bubble(f func()) { synctest.Test(t, func(t *testing.T) { f() }) }"

// testFiles are the files of tests and of their helpers, by folder.
func testFiles(t *testing.T) map[string][]*ast.File {
	t.Helper()
	folders := map[string][]*ast.File{}
	root := os.DirFS("../../..")
	for _, top := range []string{"cmd", "configs", "internal", "jobwatch", "tray", "tunnel"} {
		err := fs.WalkDir(root, top, func(file string, _ fs.DirEntry, err error) error {
			helper := strings.HasPrefix(file, tools) && !strings.HasSuffix(file, "/main.go")
			of := func(folder string) bool { return strings.HasPrefix(file, folder) }
			if err != nil || !strings.HasSuffix(file, ".go") || !strings.HasSuffix(file, "_test.go") && !helper || slices.ContainsFunc(measuring, of) {
				return err
			}
			text, err := fs.ReadFile(root, file)
			if err != nil {
				return err
			}
			parsed, err := parser.ParseFile(positions, file, text, 0)
			folders[path.Dir(file)] = append(folders[path.Dir(file)], parsed)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return folders
}

var positions = token.NewFileSet()

// clock finds the uses of the real clock in the tests of one package.
type clock struct {
	roots     []ast.Node // what runs outside of a bubble of testing/synctest
	functions map[string][]*ast.FuncDecl
	methods   map[string][]*ast.FuncDecl // by their type
	types     map[string]ast.Node
	constants map[string]ast.Expr
	bubbles   map[string]bool // functions that run a function they are given in a bubble
}

func newClock(files []*ast.File) *clock {
	c := &clock{
		functions: map[string][]*ast.FuncDecl{}, methods: map[string][]*ast.FuncDecl{}, types: map[string]ast.Node{},
		constants: map[string]ast.Expr{}, bubbles: map[string]bool{"synctest.Test": true},
	}
	for _, file := range files {
		helper := !strings.HasSuffix(positions.Position(file.Pos()).Filename, "_test.go")
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				c.declare(d)
			case *ast.FuncDecl:
				switch {
				case helper || isTest(d):
					c.roots = append(c.roots, d)
				case d.Recv == nil:
					c.functions[d.Name.Name] = append(c.functions[d.Name.Name], d)
				default:
					of := receiver(d.Recv.List[0].Type)
					c.methods[of] = append(c.methods[of], d)
				}
			}
		}
	}
	for before := 0; before < len(c.bubbles); {
		before = len(c.bubbles)
		for name, list := range c.functions {
			if slices.ContainsFunc(list, func(d *ast.FuncDecl) bool { return takesFunction(d) && c.opensBubble(d) }) {
				c.bubbles[name] = true
			}
		}
	}
	return c
}

// declare notes constants, and what runs when the package starts.
func (c *clock) declare(d *ast.GenDecl) {
	for _, s := range d.Specs {
		if named, ok := s.(*ast.TypeSpec); ok {
			c.types[named.Name.Name] = named.Type
		}
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if d.Tok == token.VAR {
			c.roots = append(c.roots, v)
		}
		for i, name := range v.Names {
			if i < len(v.Values) {
				c.constants[name.Name] = v.Values[i]
			}
		}
	}
}

func isTest(d *ast.FuncDecl) bool {
	return d.Recv == nil && slices.ContainsFunc([]string{"Test", "Fuzz", "Example", "init"}, func(p string) bool { return strings.HasPrefix(d.Name.Name, p) })
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	}
	return selector(e)
}

func takesFunction(d *ast.FuncDecl) bool {
	return slices.ContainsFunc(d.Type.Params.List, func(f *ast.Field) bool { _, ok := f.Type.(*ast.FuncType); return ok })
}

func (c *clock) opensBubble(d *ast.FuncDecl) (found bool) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found = found || c.bubbles[selector(call.Fun)]
		}
		return !found
	})
	return found
}

// places are the uses of the real clock by file, function and name, with their positions.
func (c *clock) places(folder string) map[string][]string {
	found := map[string][]string{}
	seen := map[ast.Node]bool{}
	todo := slices.Clone(c.roots)
	for len(todo) > 0 {
		n := todo[0]
		if todo = todo[1:]; seen[n] {
			continue
		}
		seen[n] = true
		function := ""
		if d, ok := n.(*ast.FuncDecl); ok {
			function = d.Name.Name
		}
		note := func(n ast.Node, what string) {
			at := positions.Position(n.Pos())
			place := at.Filename + " " + function + ": " + what
			found[place] = append(found[place], at.String()[len(folder)+1:])
		}
		var outer []ast.Node
		ast.Inspect(n, func(n ast.Node) bool {
			if n == nil {
				outer = outer[:len(outer)-1]
				return true
			}
			if e, ok := n.(*ast.CallExpr); ok {
				if c.bubbles[selector(e.Fun)] {
					return false
				}
				if c.refused(e, outer) {
					note(e, selector(e.Fun))
				}
			}
			if e, ok := n.(*ast.KeyValueExpr); ok && selector(e.Key) == "Timeout" && !c.long(e.Value) {
				note(e, "Timeout")
			}
			if len(outer) == 0 || !isField(n, outer[len(outer)-1]) {
				todo = append(todo, c.leadsTo(n)...)
			}
			outer = append(outer, n)
			return true
		})
	}
	return found
}

// isField reports whether a name is that of a field or a method.
func isField(n, parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.SelectorExpr:
		return n == p.Sel
	case *ast.KeyValueExpr:
		return n == p.Key
	}
	return false
}

// leadsTo are the functions that a name means, the methods of a value that is made, and the types of
// its fields.
func (c *clock) leadsTo(n ast.Node) (next []ast.Node) {
	switch n := n.(type) {
	case *ast.Ident:
		if n.Obj != nil && n.Obj.Kind != ast.Fun {
			break // a variable of that name
		}
		for _, d := range c.functions[n.Name] {
			next = append(next, d)
		}
	case *ast.CompositeLit:
		next = c.made(n.Type)
	case *ast.ValueSpec:
		next = c.made(n.Type)
	case *ast.Field:
		next = c.made(n.Type)
	case *ast.CallExpr:
		if selector(n.Fun) == "new" {
			next = c.made(n.Args[0])
		}
	}
	return next
}

// made is what runs with a value of a type: its methods, and those of its fields.
func (c *clock) made(of ast.Expr) (next []ast.Node) {
	for _, d := range c.methods[selector(of)] {
		next = append(next, d)
	}
	if d, ok := c.types[selector(of)]; ok {
		next = append(next, d)
	}
	return next
}

// refused reports whether a call depends on the speed of the machine.
func (c *clock) refused(call *ast.CallExpr, outer []ast.Node) bool {
	switch name := selector(call.Fun); name {
	case "time.Since", "time.Until":
		return !c.boundsAHang(outer) && !logged(outer)
	case "time.After", "time.NewTimer", "time.AfterFunc", "time.Sleep":
		return !c.long(call.Args[0]) && (!pauses(name, outer) || !inLoop(outer))
	case "context.WithTimeout":
		return !c.long(call.Args[1])
	}
	return c.deadline(call, outer)
}

// pauses reports whether a call is a pause after which nothing is done.
func pauses(name string, outer []ast.Node) bool {
	return name == "time.Sleep" || name == "time.After" && slices.ContainsFunc(outer, func(n ast.Node) bool {
		c, ok := n.(*ast.CommClause)
		return ok && len(c.Body) == 0
	})
}

// deadline reports whether a call is a limit such as time.Now().Add(time.Minute).
func (c *clock) deadline(call *ast.CallExpr, outer []ast.Node) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Add" || len(call.Args) != 1 {
		return false
	}
	now, ok := s.X.(*ast.CallExpr)
	if !ok || selector(now.Fun) != "time.Now" || c.long(call.Args[0]) {
		return false
	}
	set, ok := outer[len(outer)-1].(*ast.CallExpr)
	return c.value(call.Args[0], 0).Kind() == constant.Int || ok && strings.HasSuffix(selector(set.Fun), "Deadline")
}

func (c *clock) boundsAHang(outer []ast.Node) bool {
	b, ok := outer[len(outer)-1].(*ast.BinaryExpr)
	return ok && c.long(b.Y)
}

func logged(outer []ast.Node) bool {
	return slices.ContainsFunc(outer, func(n ast.Node) bool {
		e, ok := n.(*ast.CallExpr)
		return ok && (strings.HasSuffix(selector(e.Fun), ".Logf") || strings.HasSuffix(selector(e.Fun), ".Log"))
	})
}

// inLoop reports whether a call is the pause of a loop that counts nothing.
func inLoop(outer []ast.Node) bool {
	for _, n := range slices.Backward(outer) {
		switch n := n.(type) {
		case *ast.ForStmt:
			_, counts := n.Post.(*ast.IncDecStmt)
			return !counts
		case *ast.RangeStmt, *ast.FuncLit, *ast.FuncDecl:
			return false
		}
	}
	return false
}

// long reports whether a duration is known, and bounds nothing but a hang.
func (c *clock) long(e ast.Expr) bool {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD && (c.long(sum.X) || c.long(sum.Y)) {
		return true
	}
	v := c.value(e, 0)
	return v.Kind() == constant.Int && (constant.Compare(v, token.GEQ, constant.MakeInt64(int64(wait.Limit))) || constant.Sign(v) <= 0)
}

// units are the values of constants of other packages.
var units = map[string]time.Duration{
	"time.Nanosecond": time.Nanosecond, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
	"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour, "wait.Limit": wait.Limit,
}

// value is what an expression amounts to, as far as it is written in the package's tests.
func (c *clock) value(e ast.Expr, depth int) constant.Value {
	if depth > 9 {
		return constant.MakeUnknown()
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return c.value(e.X, depth+1)
	case *ast.UnaryExpr:
		if x := c.value(e.X, depth+1); e.Op == token.SUB && x.Kind() == constant.Int {
			return constant.UnaryOp(e.Op, x, 0)
		}
	case *ast.BinaryExpr:
		if x, y := c.value(e.X, depth+1), c.value(e.Y, depth+1); x.Kind() == constant.Int && y.Kind() == constant.Int {
			if e.Op == token.QUO {
				return constant.BinaryOp(x, token.QUO_ASSIGN, y)
			}
			return constant.BinaryOp(x, e.Op, y)
		}
	case *ast.Ident:
		if named, ok := c.constants[e.Name]; ok {
			return c.value(named, depth+1)
		}
	case *ast.SelectorExpr:
		if unit, ok := units[selector(e)]; ok {
			return constant.MakeInt64(int64(unit))
		}
	}
	return constant.MakeUnknown()
}
