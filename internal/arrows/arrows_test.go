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
	"internal/peer":             {},
	"internal/netwatch":         {},
	"internal/arrows":           {},
	"internal/testprogram":      {},
	"internal/testreport":       {},
	"internal/wording":          {},
	"internal/release":          {},
	"configs":                   {"internal/api", "internal/suggest"},
	"tunnel":                    {"tunnel/mux", "tunnel/sshconfig", "internal/api", "internal/netwatch"},
	"tunnel/forward":            {"internal/api", "internal/peer"},
	"tunnel/mux":                {},
	"tunnel/sshconfig":          {"internal/api"},
	"jobwatch":                  {"internal/api"},
	"internal/desktop":          {"internal/api", "internal/peer"},
	"internal/doctor":           {"internal/api"},
	"internal/autostart":        {"internal/api", "internal/atomicfile"},
	"internal/client":           {"internal/api", "internal/atomicfile", "internal/home"},
	"internal/agent":            {"tunnel", "tunnel/forward", "tunnel/mux", "tunnel/sshconfig", "jobwatch", "internal/gateway", "configs", "internal/api", "internal/atomicfile", "internal/home", "internal/suggest", "internal/peer", "internal/netwatch"},
	"internal/gateway":          {"internal/atomicfile"},
	"internal/transfer":         {"internal/api"},
	"internal/lab":              {},
	"internal/lab/typist":       {},
	"tray":                      {"internal/client", "internal/desktop", "internal/autostart", "internal/api", "internal/atomicfile", "internal/home", "internal/peer"},
	"jobwatch/realtest":         {},
	"tunnel/realtest":           {},
	"internal/e2e":              {},
	"internal/bench":            {"tunnel", "tunnel/forward", "tunnel/mux", "tunnel/sshconfig", "internal/bench/ground", "internal/bench/table", "internal/api", "internal/peer", "internal/netwatch"},
	"internal/bench/ground":     {},
	"internal/bench/table":      {},
	"internal/bench/idle":       {},
	"internal/soak":             {},
	"internal/bench/transfer":   {"internal/bench/ground", "internal/bench/table"},
	"internal/lab/real":         {},
	"internal/desktop/bustest":  {},
	"internal/desktop/desktest": {"internal/desktop/bustest"},
}

// noSSH are the packages that must not reach an SSH library by any way.
var noSSH = []string{"tray", "internal/client", "internal/desktop", "configs", "internal/api", "jobwatch", "tunnel/forward"}

type pkg struct {
	ImportPath string
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

// packages lists ours with all that they depend on, tests left out.
func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Deps", "tunctl/...").Output()
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
