//go:build linux

package idle

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"tunctl/internal/dev/bustest"
	"tunctl/internal/lab"
)

const (
	// settle lets what follows a start come to rest: a new job's log is read often for
	// its first minute.
	settle = 75 * time.Second
	// span is how long is measured.
	span = time.Minute
	// quiet is how long a process does nothing before it counts as asleep. One event
	// makes several threads of a Go program run; that is one wake-up of the processor.
	quiet = 100 * time.Millisecond
	// iconLimit is how long the icon may take to come.
	iconLimit = 20 * time.Second

	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = "/StatusNotifierWatcher"
)

// BenchmarkIdle brings a session up on a practice cluster, with the limits of every
// day, and an icon on a bus of its own; then it watches.
func BenchmarkIdle(b *testing.B) {
	h := newHousehold(b)
	h.tunctl("up", "--no-open")
	agent := h.agent()
	tray := h.startTray()
	rest(b, settle)
	for b.Loop() {
		parts := []*part{{name: "agent", pid: agent}, {name: "tray", pid: tray}}
		watch(b, parts)
		var woken, memory, shared float64
		for _, p := range parts {
			rss, pss := p.megabytes(b)
			b.ReportMetric(rss, p.name+"-MB")
			b.ReportMetric(float64(p.woken)/span.Minutes(), p.name+"-wakeups/min")
			woken += float64(p.woken) / span.Minutes()
			memory += rss
			shared += pss
		}
		b.ReportMetric(memory, "MB")
		b.ReportMetric(shared, "MB-in-all") // the program's own pages, which both use, counted once
		b.ReportMetric(woken, "wakeups/min")
	}
	b.ReportMetric(0, "ns/op") // says nothing here
}

// rest is the time that is measured, not a wait for something.
func rest(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
	}
}

// part is a process that is watched.
type part struct {
	name     string
	pid      int
	switches int       // of its threads, so far
	active   time.Time // when it last did something
	woken    int
}

// watch counts how often the parts wake.
func watch(b *testing.B, parts []*part) {
	b.Helper()
	for _, p := range parts {
		p.switches = p.count(b)
	}
	tick := time.NewTicker(quiet / 4)
	defer tick.Stop()
	for end := time.Now().Add(span); time.Now().Before(end); <-tick.C {
		for _, p := range parts {
			p.look(b, time.Now())
		}
	}
}

// look notes whether the process did something since the last look.
func (p *part) look(b *testing.B, now time.Time) {
	b.Helper()
	n := p.count(b)
	if n == p.switches {
		return
	}
	if now.Sub(p.active) > quiet {
		p.woken++
	}
	p.switches, p.active = n, now
}

// household is a program with a home and a cluster of its own.
type household struct {
	b       *testing.B
	program string
	env     []string
}

func newHousehold(b *testing.B) *household {
	b.Helper()
	dir := b.TempDir()
	h := &household{b: b, program: filepath.Join(dir, "tunctl")}
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", h.program, "tunctl/cmd/tunctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	cluster, err := lab.Start(lab.Options{Dir: filepath.Join(dir, "c"), PageCommand: []string{h.program, "practice-page"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cluster.Close() })
	home := filepath.Join(dir, "h")
	if err := os.Mkdir(home, 0o700); err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(cluster.Home(), "jupyter.sh"): lab.JobScript(cluster.Dialect()),
		filepath.Join(home, "config.toml"):          fmt.Sprintf("[session.jupyter]\nhost = %q\nsubmit = \"~/jupyter.sh\"\n", cluster.Alias()),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	h.env = append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=", "TUNCTL_PRACTICE=", "TUNCTL_SSH_CONFIG="+cluster.SSHConfig(),
		"SSH_AUTH_SOCK=", "DISPLAY=")
	b.Cleanup(func() { h.tunctl("agent", "stop") })
	return h
}

// tunctl runs the program and returns what it printed.
func (h *household) tunctl(args ...string) []byte {
	h.b.Helper()
	cmd := exec.Command(h.program, args...)
	cmd.Env = h.env
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		h.b.Fatalf("tunctl %s: %v\n%s", strings.Join(args, " "), err, talk.String())
	}
	return out
}

// agent is the agent's process id.
func (h *household) agent() int {
	h.b.Helper()
	var status struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(h.tunctl("agent", "status", "--json"), &status); err != nil {
		h.b.Fatal(err)
	}
	return status.PID
}

// startTray shows the icon to a stand-in for a panel, and returns the process id.
func (h *household) startTray() int {
	h.b.Helper()
	bus := bustest.Start(h.b)
	panel := &panel{registered: make(chan struct{}, 8)}
	conn := bus.Connect(h.b)
	if err := conn.Export(panel, watcherPath, watcherName); err != nil {
		h.b.Fatal(err)
	}
	_, err := prop.Export(conn, watcherPath, prop.Map{watcherName: {"IsStatusNotifierHostRegistered": {Value: true}}})
	if err == nil {
		_, err = conn.RequestName(watcherName, dbus.NameFlagDoNotQueue)
	}
	if err != nil {
		h.b.Fatal(err)
	}
	cmd := exec.CommandContext(h.b.Context(), h.program, "tray")
	cmd.Env = append(slices.Clone(h.env), "DBUS_SESSION_BUS_ADDRESS="+bus.Address)
	if err := cmd.Start(); err != nil {
		h.b.Fatal(err)
	}
	h.b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	select {
	case <-panel.registered:
	case <-time.After(iconLimit):
		h.b.Fatal("no icon came")
	}
	return cmd.Process.Pid
}

// panel stands in for a desktop's.
type panel struct{ registered chan struct{} }

// RegisterStatusNotifierItem is what an icon calls.
func (p *panel) RegisterStatusNotifierItem(string) *dbus.Error {
	p.registered <- struct{}{}
	return nil
}

// megabytes is a process's resident memory, and the same with what it shares with
// others divided among them.
func (p *part) megabytes(b *testing.B) (rss, pss float64) {
	b.Helper()
	path := fmt.Sprintf("/proc/%d/smaps_rollup", p.pid)
	return float64(field(b, path, "Rss:")) / 1024, float64(field(b, path, "Pss:")) / 1024
}

// count is how often the threads of the process gave the processor back.
func (p *part) count(b *testing.B) int {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.pid))
	if err != nil || len(threads) == 0 {
		b.Fatalf("the %s is gone", p.name)
	}
	sum := 0
	for _, path := range threads {
		sum += field(b, path, "voluntary_ctxt_switches:")
	}
	return sum
}

// field reads a number of a status file in /proc.
func field(b *testing.B, path, name string) int {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == name {
			n, err := strconv.Atoi(words[1])
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("no %s in %s", name, path)
	return 0
}
