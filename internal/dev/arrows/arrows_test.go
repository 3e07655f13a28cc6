package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// imports are, for each of our packages, those of ours that it imports, on any system.
// A new import needs a line here, which is the place to ask whether the arrow is right.
var imports = map[string][]string{
	// The program.
	"cmd/tunctl": {"configs", "internal/action", "internal/agent", "internal/agent/passwords", "internal/agent/session", "internal/agent/settings", "internal/agent/socket", "internal/agent/state", "internal/api", "internal/atomicfile", "internal/autostart", "internal/client", "internal/cmdline", "internal/ctxtime", "internal/dashboard", "internal/desktop", "internal/doctor", "internal/editor", "internal/gateway", "internal/home", "internal/lab", "internal/lists", "internal/logfile", "internal/mcp", "internal/output", "internal/posixsh", "internal/setup", "internal/show", "internal/suggest", "internal/term", "internal/transfer", "internal/watchui", "internal/words", "jobwatch/detect", "tray", "tunnel", "tunnel/forward", "tunnel/openssh", "tunnel/sshconfig", "tunnel/userkeys"},

	// Clients of the agent.
	"tray":               {"internal/action", "internal/api", "internal/ctxtime", "internal/desktop", "internal/latest", "internal/lists", "internal/show", "internal/words"},
	"internal/action":    {"internal/api", "internal/desktop", "internal/show", "internal/words"},
	"internal/dashboard": {"internal/action", "internal/api", "internal/client", "internal/ctxtime", "internal/desktop", "internal/freeport", "internal/home", "internal/lists", "internal/localapi", "internal/localsocket", "internal/peer", "internal/show", "internal/words"},
	"internal/cmdline":   {"internal/api", "internal/suggest", "internal/term"},
	"internal/editor":    {"internal/api", "internal/lists"},
	"internal/desktop":   {"internal/api", "internal/lists", "internal/peer", "internal/posixsh", "internal/term"},
	"internal/client":    {"internal/api", "internal/ctxtime", "internal/home", "internal/localsocket"},
	"internal/mcp":       {"configs", "internal/api", "internal/client", "internal/ctxtime", "internal/lists", "internal/show", "jobwatch/detect"},
	"internal/autostart": {"internal/atomicfile", "internal/lists", "internal/nowindow"},
	"internal/doctor":    {"internal/api", "internal/suggest"},
	"internal/output":    {"internal/api", "internal/lists", "internal/words"},
	"internal/transfer":  {"internal/ctxtime"},
	"internal/setup":     {"configs", "internal/api", "internal/client", "internal/lists", "internal/show", "internal/suggest", "internal/term", "internal/words", "tunnel", "tunnel/sshconfig"},
	"internal/show":      {"internal/api", "internal/ctxtime", "internal/lists", "internal/term", "internal/words"},
	"internal/term":      {"internal/api", "internal/ctxtime", "internal/lists"},
	"internal/watchui":   {"internal/action", "internal/api", "internal/client", "internal/ctxtime", "internal/desktop", "internal/latest", "internal/lists", "internal/show", "internal/term", "internal/words"},

	// The agent and what it owns.
	"internal/agent":           {"configs", "internal/agent/events", "internal/agent/facts", "internal/agent/forwards", "internal/agent/hosts", "internal/agent/jobnode", "internal/agent/logs", "internal/agent/probe", "internal/agent/session", "internal/agent/settings", "internal/agent/socket", "internal/agent/state", "internal/agent/submit", "internal/api", "internal/ctxtime", "internal/gateway", "internal/home", "internal/localapi", "internal/posixsh", "internal/usage", "jobwatch", "jobwatch/joblog", "jobwatch/remote", "tunnel"},
	"internal/agent/session":   {"configs", "internal/agent/events", "internal/agent/facts", "internal/agent/forwards", "internal/agent/hosts", "internal/agent/jobnode", "internal/agent/ledger", "internal/agent/logs", "internal/agent/probe", "internal/agent/run", "internal/agent/settings", "internal/agent/state", "internal/agent/submit", "internal/api", "internal/ctxtime", "internal/gateway", "internal/latest", "internal/lists", "internal/localapi", "internal/suggest", "internal/usage", "internal/words", "jobwatch", "jobwatch/remote", "tunnel", "tunnel/forward"},
	"internal/agent/run":       {"configs", "internal/agent/facts", "internal/agent/hosts", "internal/agent/jobnode", "internal/agent/ledger", "internal/agent/logs", "internal/agent/probe", "internal/agent/settings", "internal/agent/submit", "internal/api", "internal/ctxtime", "internal/latest", "internal/lists", "jobwatch", "jobwatch/detect", "jobwatch/joblog", "jobwatch/remote", "tunnel", "tunnel/node"},
	"internal/agent/ledger":    {"configs", "internal/agent/facts", "internal/agent/hosts", "internal/agent/settings", "internal/agent/state", "internal/agent/submit", "internal/api", "internal/ctxtime", "internal/latest", "internal/localapi", "jobwatch", "jobwatch/remote", "tunnel"},
	"internal/agent/facts":     {"configs", "internal/agent/state", "internal/agent/submit", "internal/api", "internal/words", "jobwatch", "tunnel/forward"},
	"internal/agent/probe":     {"internal/api", "internal/ctxtime", "internal/gateway", "internal/latest", "jobwatch/detect", "jobwatch/joblog", "tunnel/forward", "tunnel/kernel", "tunnel/step"},
	"internal/agent/logs":      {"configs", "internal/api", "internal/localapi", "jobwatch/joblog", "jobwatch/remote"},
	"internal/agent/jobnode":   {"configs", "internal/api", "internal/gateway", "internal/usage", "jobwatch", "jobwatch/remote", "tunnel", "tunnel/node"},
	"internal/agent/state":     {"internal/api", "internal/atomicfile", "internal/lists"},
	"internal/gateway":         {"internal/atomicfile"},
	"internal/usage":           {"internal/api", "internal/ctxtime", "internal/gateway", "internal/posixsh"},
	"internal/agent/events":    {"internal/api", "tunnel/failure"},
	"internal/agent/hosts":     {"internal/agent/passwords", "internal/agent/settings", "internal/agent/state", "internal/api", "internal/atomicfile", "internal/ctxtime", "internal/home", "internal/lists", "internal/posixsh", "internal/suggest", "jobwatch", "jobwatch/joblog", "jobwatch/remote", "tunnel", "tunnel/node", "tunnel/sshconfig"},
	"internal/agent/passwords": {"internal/agent/state", "internal/api", "internal/nowindow"},
	"internal/agent/settings":  {"configs", "internal/api", "internal/home", "internal/lists", "jobwatch/detect", "tunnel/sshconfig"},
	"internal/agent/socket":    {"internal/api", "internal/ctxtime", "internal/home", "internal/localsocket"},
	"internal/agent/submit":    {"configs", "internal/agent/state", "internal/api", "jobwatch"},
	"internal/agent/forwards":  {"configs", "internal/agent/facts", "internal/api", "internal/lists", "tunnel/forward", "tunnel/sshconfig"},

	// Connections.
	"tunnel":           {"internal/api", "internal/ctxtime", "internal/latest", "internal/lists", "internal/netwatch", "internal/posixsh", "tunnel/channels", "tunnel/failure", "tunnel/hostkey", "tunnel/openssh", "tunnel/pace", "tunnel/retry", "tunnel/sshconfig", "tunnel/tcpinfo", "tunnel/userkeys"},
	"tunnel/channels":  {"internal/api", "tunnel/failure"},
	"tunnel/failure":   {"internal/api"},
	"tunnel/kernel":    {"tunnel/step", "tunnel/websocket"},
	"tunnel/websocket": {},
	"tunnel/forward":   {"internal/api", "internal/ctxtime", "internal/freeport", "internal/latest", "internal/peer", "tunnel/tcpinfo", "tunnel/websocket"},
	"tunnel/hostkey":   {"internal/api", "internal/lists", "tunnel/failure", "tunnel/sshconfig"},
	"tunnel/node":      {"internal/api", "internal/ctxtime", "internal/latest", "internal/posixsh", "tunnel", "tunnel/channels", "tunnel/failure", "tunnel/retry", "tunnel/step"},
	"tunnel/openssh":   {"internal/api", "internal/peer"},
	"tunnel/pace":      {},
	"tunnel/retry":     {"internal/api", "tunnel/failure"},
	"tunnel/sshconfig": {"internal/api", "internal/nowindow", "tunnel/failure"},
	"tunnel/step":      {"internal/api"},
	"tunnel/tcpinfo":   {},
	"tunnel/userkeys":  {"internal/api", "internal/lists", "tunnel/failure", "tunnel/sshconfig"},

	// Jobs.
	"jobwatch":            {"internal/api", "internal/ctxtime", "internal/latest", "internal/lists", "internal/posixsh", "jobwatch/gridengine", "jobwatch/joblog", "jobwatch/pbs", "jobwatch/plain", "jobwatch/remote", "jobwatch/sched", "jobwatch/slurm"},
	"jobwatch/slurm":      {"internal/api", "internal/posixsh", "jobwatch/remote", "jobwatch/sched"},
	"jobwatch/pbs":        {"internal/api", "internal/lists", "internal/posixsh", "jobwatch/remote", "jobwatch/sched"},
	"jobwatch/gridengine": {"internal/api", "internal/lists", "internal/posixsh", "jobwatch/remote", "jobwatch/sched"},
	"jobwatch/plain":      {"internal/api", "jobwatch/remote", "jobwatch/sched"},
	"jobwatch/sched":      {"internal/api", "internal/lists", "internal/posixsh", "jobwatch/remote"},
	"jobwatch/joblog":     {"internal/api", "internal/ctxtime", "internal/latest", "internal/posixsh", "jobwatch/detect", "jobwatch/remote"},
	"jobwatch/remote":     {"internal/api", "internal/posixsh"},
	"jobwatch/detect":     {"internal/api"},

	// Leaves.
	"configs":             {"internal/api", "internal/atomicfile", "internal/posixsh", "internal/suggest"},
	"internal/api":        {},
	"internal/home":       {"internal/atomicfile"},
	"internal/words":      {"internal/api"},
	"internal/peer":       {},
	"internal/nowindow":   {},
	"internal/netwatch":   {"internal/latest"},
	"internal/atomicfile": {},
	"internal/suggest":    {},
	"internal/lists":      {},
	"internal/logfile":    {},
	"internal/posixsh":    {},
	"internal/latest":     {},
	"internal/ctxtime":    {},
	"internal/freeport":   {},

	// What agent, dashboard and client share.
	"internal/localapi":    {"internal/api", "internal/home"},
	"internal/localsocket": {"internal/ctxtime", "internal/home", "internal/peer"},

	// The practice cluster, and what tests, measures and releases the program.
	"internal/dev/arrows":          {},
	"internal/dev/bench":           {"internal/autostart", "internal/ctxtime", "internal/dev/bench/ground", "internal/dev/bench/table", "internal/dev/tunneltest", "tunnel", "tunnel/forward"},
	"internal/dev/bench/dashboard": {"internal/dev/bench/ground", "internal/dev/bench/table", "internal/dev/chromium", "internal/lab"},
	"internal/dev/bench/ground":    {},
	"internal/dev/ownertest":       {"configs", "internal/agent/facts", "internal/agent/hosts", "internal/agent/jobnode", "internal/agent/probe", "internal/agent/settings", "internal/agent/state", "internal/agent/submit", "internal/api", "internal/home", "jobwatch/remote", "tunnel"},
	"internal/dev/bench/growth":    {"internal/agent", "internal/agent/session", "internal/agent/state", "internal/api", "internal/client", "internal/ctxtime", "internal/dev/bench/ground", "internal/dev/bench/table", "internal/home", "jobwatch", "jobwatch/joblog", "jobwatch/remote", "tunnel"},
	"internal/dev/bench/idle":      {},
	"internal/dev/bench/inside":    {"internal/api", "internal/dev/bench/ground", "internal/dev/bench/table", "internal/dev/real"},
	"internal/dev/bench/start":     {"internal/dev/bench/ground", "internal/dev/bench/table", "internal/dev/real"},
	"internal/dev/bench/table":     {},
	"internal/dev/bench/transfer":  {"internal/ctxtime", "internal/dev/bench/ground", "internal/dev/bench/table"},
	"internal/dev/chromium":        {"internal/ctxtime", "internal/dev/wait"},
	"internal/dev/bench/watch":     {"internal/dev/bench/ground", "internal/dev/bench/table"},
	"internal/dev/bustest":         {"internal/dev/testprogram"},
	"internal/dev/desktest":        {"internal/dev/bustest", "internal/dev/chromium", "internal/dev/wait"},
	"internal/dev/e2e":             {},
	"internal/lab":                 {"internal/freeport", "internal/posixsh"},
	"internal/dev/real":            {"internal/atomicfile", "internal/dev/sshtest", "internal/dev/wait"},
	"internal/dev/real/cmd/labctl": {"internal/dev/real"},
	"internal/dev/jobtest":         {"internal/api", "internal/posixsh", "jobwatch/remote", "jobwatch/sched"},
	"internal/dev/ptytest":         {"internal/dev/wait"},
	"internal/dev/release":         {},
	"internal/dev/soak":            {},
	"internal/dev/testport":        {"internal/dev/wait", "internal/freeport"},
	"internal/dev/testprogram":     {},
	"internal/dev/sshtest":         {"internal/api", "tunnel/failure"},
	"internal/dev/steptest":        {},
	"internal/dev/testreport":      {},
	"internal/dev/tunneltest":      {"internal/api", "internal/dev/sshtest", "tunnel", "tunnel/sshconfig"},
	"internal/dev/smalldisk":       {},
	"internal/dev/must":            {},
	"internal/dev/manpage":         {"internal/cmdline"},
	"internal/dev/wait":            {},
	"internal/dev/winetest":        {},
	"internal/dev/wording":         {},
	"internal/dev/realjobs":        {},
	"internal/dev/realssh":         {},
}

// never are dependencies, direct or not, that the design rules out: package and prefix.
var never = []struct{ from, to string }{
	// Schedulers are asked over whatever connection the agent gives.
	{"tunnel", "tunctl/jobwatch"},
	{"jobwatch", "tunctl/tunnel"},
	// Whatever reads logs does not know who started the job.
	{"jobwatch/joblog", "tunctl/jobwatch/sched"},
	{"jobwatch/sched", "tunctl/jobwatch/joblog"},
	{"jobwatch/sched", "tunctl/jobwatch/detect"},
	// A node is given a Link, and chooses among routes: a connection knows none of them.
	{"tunnel", "tunctl/tunnel/node"},
	{"tunnel", "tunctl/tunnel/step"},
	// A forward is given a Dialer.
	{"tunnel", "tunctl/tunnel/forward"},
	{"tunnel/forward", "golang.org/x/crypto/ssh"},
	// What kind of failure it was, and when to try again, is known without a connection, and
	// how fast data may move and how many sessions there may be without knowing what they are.
	{"tunnel/failure", "golang.org/x/crypto/ssh"},
	{"tunnel/retry", "golang.org/x/crypto/ssh"},
	{"tunnel/pace", "golang.org/x/crypto/ssh"},
	{"tunnel/channels", "golang.org/x/crypto/ssh"},
	{"tunnel/pace", "net"},
	// Only the tunnel side knows SSH.
	{"jobwatch", "golang.org/x/crypto/ssh"},
	{"configs", "golang.org/x/crypto/ssh"},
	{"internal/api", "golang.org/x/crypto/ssh"},
	{"internal/client", "golang.org/x/crypto/ssh"},
	{"internal/dashboard", "golang.org/x/crypto/ssh"},
	{"internal/dashboard", "tunctl/internal/agent"},
	{"internal/dashboard", "tunctl/configs"},
	{"internal/mcp", "golang.org/x/crypto/ssh"},
	{"internal/desktop", "golang.org/x/crypto/ssh"},
	{"internal/term", "golang.org/x/crypto/ssh"},
	{"internal/show", "golang.org/x/crypto/ssh"},
	{"internal/action", "golang.org/x/crypto/ssh"},
	{"tray", "golang.org/x/crypto/ssh"},
	// What is shown and done is what a client was told, and asks the agent for.
	{"internal/show", "tunctl/internal/agent"},
	{"internal/show", "tunctl/internal/client"},
	{"internal/action", "tunctl/internal/agent"},
	{"internal/setup", "tunctl/internal/agent"},
	// The agent has no desktop: it may run where nobody is logged in.
	{"internal/agent", "tunctl/internal/desktop"},
	{"internal/agent", "tunctl/internal/client"},
	{"internal/agent", "tunctl/internal/mcp"},
	{"internal/agent", "tunctl/internal/term"},
	{"internal/agent", "tunctl/internal/show"},
	{"internal/agent", "tunctl/internal/action"},
	{"internal/agent", "tunctl/tray"},
	// What the user has written is known below the hosts, and a host knows no session.
	{"internal/agent/settings", "tunctl/internal/agent/state"},
	{"internal/agent/hosts", "tunctl/tunnel/forward"},
	// What is measured is given as a Source.
	{"internal/usage", "tunctl/tunnel"},
	{"internal/usage", "tunctl/jobwatch"},
	// A prober is given a Job, and decides no state.
	{"internal/agent/probe", "tunctl/configs"},
	{"internal/agent/probe", "tunctl/internal/agent/state"},
	// Forwards are told what they lead to.
	{"internal/agent/forwards", "tunctl/internal/agent/probe"},
	// What follows from the facts needs no connection.
	{"internal/agent/facts", "golang.org/x/crypto/ssh"},
	// A submission is made through a Watcher.
	{"internal/agent/submit", "golang.org/x/crypto/ssh"},
	// What tests, measures and releases the program is no part of it.
	{"cmd/tunctl", "tunctl/internal/dev"},
	// Reading a log starts no program and connects to nothing.
	{"jobwatch/detect", "os/exec"},
	{"jobwatch/detect", "net/http"},
	{"jobwatch/detect", "golang.org/x/crypto/ssh"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// name is the package's path within the module.
func (p *pkg) name() string { return strings.TrimPrefix(p.ImportPath, "tunctl/") }

func TestArrowsPointDown(t *testing.T) {
	found := map[string][]string{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, p := range packages(t, "GOOS="+system, "CGO_ENABLED=0") {
			list := found[p.name()]
			for _, path := range p.Imports {
				if ours, ok := strings.CutPrefix(path, "tunctl/"); ok && !slices.Contains(list, ours) {
					list = append(list, ours)
				}
			}
			found[p.name()] = list
		}
	}
	for name, list := range found {
		may, known := imports[name]
		if !known {
			t.Errorf("package %s has no place in the architecture: give it one in this test", name)
		}
		for _, ours := range list {
			if !slices.Contains(may, ours) {
				t.Errorf("%s must not import %s", name, ours)
			}
		}
		for _, ours := range may {
			if !slices.Contains(list, ours) {
				t.Errorf("%s no longer imports %s: remove that from this test", name, ours)
			}
		}
	}
	for name := range imports {
		if _, ok := found[name]; !ok {
			t.Errorf("there is no package %s: remove it from this test", name)
		}
	}
}

func TestSomePackagesNeverReachOthers(t *testing.T) {
	all := packages(t)
	for _, rule := range never {
		i := slices.IndexFunc(all, func(p pkg) bool { return p.name() == rule.from })
		if i < 0 {
			t.Errorf("there is no package %s", rule.from)
			continue
		}
		for _, dep := range all[i].Deps {
			if dep == rule.to || strings.HasPrefix(dep, rule.to+"/") {
				t.Errorf("%s reaches %s", rule.from, dep)
			}
		}
	}
}

// TestDetectKnowsNoHost: package net is among the dependencies of internal/api, which joins
// hosts and ports, so only a direct import of it counts.
func TestDetectKnowsNoHost(t *testing.T) {
	for _, p := range packages(t) {
		if p.name() != "jobwatch/detect" {
			continue
		}
		for _, dep := range p.Imports {
			if dep == "net" || dep == "os" || dep == "syscall" {
				t.Errorf("detect imports %s", dep)
			}
		}
		return
	}
	t.Error("there is no package jobwatch/detect")
}

// TestFactsArePure: what follows from the facts of a session depends on them and on the time that
// the caller gives, alone.
func TestFactsArePure(t *testing.T) {
	for file, text := range sourceFiles(t) {
		if path.Dir(file) != "internal/agent/facts" {
			continue
		}
		for _, impure := range []string{"time.Now(", "time.Since(", "time.Until(", "\"sync\"", "\"os\"", "\"net\"", "\"context\""} {
			if bytes.Contains(text, []byte(impure)) {
				t.Errorf("%s has %s", file, impure)
			}
		}
	}
}

func TestTheArchitecturePageHasEveryPackageOfTheProgram(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages(t) {
		if p.name() != "cmd/tunctl" {
			continue
		}
		for _, dep := range append(p.Deps, p.ImportPath) {
			if ours, ok := strings.CutPrefix(dep, "tunctl/"); ok && !bytes.Contains(page, []byte("`"+ours+"`")) {
				t.Errorf("docs/architecture.md does not have %s", ours)
			}
		}
	}
}

// packages lists ours with all that they depend on, tests left out.
func packages(t *testing.T, env ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "tunctl/...")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}
