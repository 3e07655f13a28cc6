package arrows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// fromHosts are the packages that read what hosts send.
var fromHosts = []string{
	"internal/agent", "internal/agent/hosts", "internal/agent/logs", "internal/agent/passwords",
	"internal/agent/probe", "internal/gateway", "internal/localapi", "internal/transfer", "internal/usage", "jobwatch", "jobwatch/detect",
	"jobwatch/gridengine", "jobwatch/joblog", "jobwatch/pbs", "jobwatch/plain", "jobwatch/remote", "jobwatch/sched",
	"jobwatch/slurm", "tunnel", "tunnel/forward", "tunnel/hostkey", "tunnel/node", "tunnel/openssh", "tunnel/sshconfig",
	"tunnel/step", "tunnel/userkeys",
}

// withoutBound are functions and methods that read to an end which a host may never send,
// and keep what they read. A line of a host is read by api.ReadLine.
var withoutBound = []string{
	"ReadString", "ReadBytes", "ReadAll", "NewScanner", "Copy", "CopyBuffer", "ReadFrom", "NewDecoder", "Output", "CombinedOutput",
}

// outputs are the fields of a command that take all that it prints.
var outputs = []string{"Stdout", "Stderr"}

// bounded are the places that use them, and why they keep no more than they may.
var bounded = []struct{ file, read, why string }{
	{"internal/agent/passwords/passwords.go", "cmd.Stdout", "a program of ours"},
	{"internal/agent/passwords/passwords.go", "cmd.Stderr", "a program of ours"},
	{"internal/localapi/localapi.go", "json.NewDecoder", "of a MaxBytesReader"},
	{"internal/agent/probe/route.go", "json.NewDecoder", "of a LimitReader"},
	{"internal/agent/stream.go", "io.CopyBuffer", "to the other end of a stream"},
	{"internal/gateway/gateway.go", "io.Copy", "to io.Discard"},
	{"internal/gateway/gateway.go", "io.CopyBuffer", "to the other end of a stream"},
	{"internal/usage/reading.go", "in.ReadAll", "of a reading, which is bounded"},
	{"jobwatch/gridengine/gridengine.go", "res.Stderr", "a Result, which is bounded"},
	{"jobwatch/gridengine/list.go", "xml.NewDecoder", "of a Result, which is bounded"},
	{"jobwatch/remote/remote.go", "cmd.Stdout", "a program on this computer"},
	{"jobwatch/remote/remote.go", "cmd.Stderr", "a program on this computer"},
	{"jobwatch/remote/remote.go", "res.Stdout", "a Result, which is bounded"},
	{"tunnel/attempt.go", "cmd.Stdout", "a stderrBuffer"},
	{"tunnel/attempt.go", "cmd.Stderr", "a stderrBuffer"},
	{"tunnel/exec.go", "session.Stdout", "a limitedBuffer"},
	{"tunnel/exec.go", "session.Stderr", "a limitedBuffer"},
	{"tunnel/exec.go", "x.Stdout", "of a limitedBuffer"},
	{"tunnel/exec.go", "x.Stderr", "of a limitedBuffer"},
	{"tunnel/exec.go", "s.session.Stderr", "a stderrBuffer"},
	{"tunnel/forward/hostcheck.go", "io.Copy", "to io.Discard"},
	{"tunnel/hostkey/revoked.go", "cmd.Output", "ssh-keygen -Q, which asks no host"},
	{"tunnel/hostkey/revoked.go", "cmd.Stderr", "ssh-keygen -Q, which asks no host"},
	{"tunnel/openssh/askpass.go", "io.ReadAll", "an answer from the agent"},
	{"tunnel/openssh/askpass.go", "io.ReadAll", "of a LimitReader"},
	{"tunnel/openssh/listen.go", "cmd.Output", "ssh -O, which prints a port or an error"},
	{"tunnel/openssh/master.go", "m.cmd.Stderr", "a stderrBuffer of package tunnel"},
	{"tunnel/program.go", "cmd.Stderr", "a stderrBuffer"},
	{"tunnel/sshconfig/resolver.go", "cmd.Output", "ssh -G, which asks no host"},
	{"tunnel/sshconfig/resolver.go", "cmd.Stderr", "ssh -G, which asks no host"},
}

func TestEveryReadFromAHostIsBounded(t *testing.T) {
	var known, found []string
	for _, b := range bounded {
		known = append(known, b.file+": "+b.read)
	}
	for file, text := range sourceFiles(t) {
		if slices.Contains(fromHosts, path.Dir(file)) {
			found = append(found, readsIn(t, file, text)...)
		}
	}
	for _, read := range found {
		i := slices.Index(known, read)
		if i < 0 {
			t.Errorf("%s may read without a bound: bound it, read lines by api.ReadLine, or say in this test why it is bounded", read)
			continue
		}
		known = slices.Delete(known, i, i+1)
	}
	for _, read := range known {
		t.Errorf("%s is gone: remove it from this test", read)
	}
}

// readsIn are the uses of withoutBound and outputs in a file.
func readsIn(t *testing.T, file string, text []byte) (found []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	note := func(e ast.Expr, names []string) {
		if s, ok := e.(*ast.SelectorExpr); ok && slices.Contains(names, s.Sel.Name) && !strings.HasPrefix(selector(s), "maps.") {
			found = append(found, file+": "+selector(s))
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			note(n.Fun, withoutBound)
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				note(to, outputs)
			}
		}
		return true
	})
	return found
}

// selector is an expression such as cmd.Stderr as it is written.
func selector(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return strings.TrimPrefix(selector(e.X)+"."+e.Sel.Name, ".")
	case *ast.Ident:
		return e.Name
	}
	return ""
}
