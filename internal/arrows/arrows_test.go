package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed are, for each of our packages, those of ours that it may depend on,
// directly or not. Leaves have none. For cmd/tunctl only what it must not import
// directly is checked: it may use everything else.
var allowed = map[string][]string{
	"internal/api":              {},
	"internal/atomicfile":       {},
	"internal/home":             {"internal/atomicfile"},
	"internal/suggest":          {},
	"internal/posixsh":          {},
	"internal/ctxtime":          {},
	"internal/term":             {"internal/api"},
	"internal/peer":             {},
	"internal/netwatch":         {},
	"internal/arrows":           {},
	"internal/testprogram":      {},
	"internal/testreport":       {},
	"internal/wording":          {},
	"internal/release":          {},
	"configs":                   {"internal/api", "internal/suggest", "internal/posixsh"},
	"tunnel":                    {"tunnel/mux", "internal/api", "internal/netwatch", "internal/peer", "internal/posixsh", "internal/ctxtime", "tunnel/sshconfig"},
	"tunnel/forward":            {"internal/api", "internal/peer"},
	"tunnel/mux":                {},
	"jobwatch":                  {"jobwatch/detect", "internal/api", "internal/posixsh", "internal/ctxtime"},
	"jobwatch/detect":           {"internal/api"},
	"internal/desktop":          {"internal/api", "internal/peer", "internal/posixsh", "internal/ctxtime"},
	"internal/doctor":           {"internal/api"},
	"internal/autostart":        {"internal/api", "internal/atomicfile"},
	"internal/client":           {"internal/api", "internal/atomicfile", "internal/home", "internal/ctxtime"},
	"internal/agent":            {"tunnel", "tunnel/forward", "tunnel/mux", "jobwatch", "internal/gateway", "configs", "internal/api", "internal/atomicfile", "internal/home", "internal/suggest", "internal/peer", "internal/netwatch", "jobwatch/detect", "internal/agent/state", "internal/posixsh", "internal/ctxtime", "tunnel/sshconfig"},
	"internal/agent/state":      {"internal/api", "internal/atomicfile"},
	"tunnel/sshconfig":          {"internal/api"},
	"internal/gateway":          {"internal/atomicfile"},
	"internal/transfer":         {"internal/api", "internal/ctxtime"},
	"internal/lab":              {"internal/posixsh"},
	"internal/ptytest":          {},
	"tray":                      {"internal/client", "internal/desktop", "internal/autostart", "internal/api", "internal/atomicfile", "internal/home", "internal/peer", "internal/posixsh", "internal/ctxtime"},
	"jobwatch/realtest":         {},
	"tunnel/realtest":           {},
	"internal/e2e":              {},
	"internal/bench":            {"tunnel", "tunnel/forward", "tunnel/mux", "internal/bench/ground", "internal/bench/table", "internal/api", "internal/peer", "internal/netwatch", "internal/posixsh", "internal/ctxtime", "tunnel/sshconfig"},
	"internal/bench/ground":     {},
	"internal/bench/table":      {},
	"internal/bench/idle":       {},
	"internal/soak":             {},
	"internal/bench/transfer":   {"internal/bench/ground", "internal/bench/table", "internal/ctxtime"},
	"internal/lab/real":         {"internal/atomicfile"},
	"internal/desktop/bustest":  {},
	"internal/desktop/desktest": {"internal/desktop/bustest"},
}

// noSSH are the packages that must not reach an SSH library by any way.
var noSSH = []string{"tray", "internal/client", "internal/desktop", "configs", "internal/api", "jobwatch", "tunnel/forward"}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, "tunctl/")
		if strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "internal/lab/real/") {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s has no place in the architecture: give it one in this test", name)
			continue
		}
		for _, dep := range p.Deps {
			if ours, ok := strings.CutPrefix(dep, "tunctl/"); ok && !slices.Contains(may, ours) {
				t.Errorf("%s must not depend on %s", name, ours)
			}
		}
	}
}

func TestOnlyTheTunnelSideReachesSSH(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, "tunctl/")
		if !slices.Contains(noSSH, name) {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "golang.org/x/crypto/ssh") {
				t.Errorf("%s reaches %s", name, dep)
			}
		}
	}
}

// TestDetectKnowsNoHost: reading a log neither connects to anything, nor starts a
// program, nor opens a file. Package net itself is among the dependencies of
// internal/api, which joins hosts and ports, so only a direct import of it counts.
func TestDetectKnowsNoHost(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != "tunctl/jobwatch/detect" {
			continue
		}
		for _, dep := range p.Imports {
			if dep == "net" || dep == "os" || dep == "syscall" {
				t.Errorf("detect imports %s", dep)
			}
		}
		for _, dep := range p.Deps {
			if dep == "os/exec" || dep == "net/http" || strings.HasPrefix(dep, "golang.org/x/crypto/ssh") {
				t.Errorf("detect reaches %s", dep)
			}
		}
		return
	}
	t.Error("there is no package jobwatch/detect")
}

// packages lists ours with all that they depend on, tests left out.
func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "tunctl/...").Output()
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
