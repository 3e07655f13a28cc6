//go:build linux

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/words"
)

const (
	cellLines = 600             // that a cell prints
	beforeCut = 2 * time.Second // a cell prints before the connection is lost
	afterCut  = 4 * time.Second // and after it is back
)

// countingCell is a cell that prints numbered lines, and what came of them in one tab. Its
// client reconnects as JupyterLab's does.
type countingCell struct {
	channels *url.URL
	printed  chan struct{} // closed when the first line has come

	mu      sync.Mutex
	session string // the tab's, for the server
	conn    kernelConn
	rest    string            // of a line that has not come whole
	seen    map[int]time.Time // when each line came
	twice   int               // lines that came again
	late    int               // lines that came after a later one
	last    int
	lost    int  // websockets that ended before the cell
	idle    bool // the kernel says that the cell has ended
}

// runCountingCell prints lines of a size in a new kernel for a while, and counts them in some
// tabs until ctx ends or all that is to come has come.
func runCountingCell(ctx context.Context, t *testing.T, base *url.URL, token string, lasts time.Duration, size, tabs int) (cells []*countingCell, wait func()) {
	t.Helper()
	kernel := base.JoinPath("api/kernels", startKernel(ctx, t, base, token))
	u := kernel.JoinPath("channels")
	u.Scheme, u.RawQuery = "ws", "token="+token
	var reading sync.WaitGroup
	for i := range tabs {
		c := &countingCell{channels: u, session: fmt.Sprintf("tab%d", i), printed: make(chan struct{}), seen: map[int]time.Time{}, last: -1}
		if err := c.connect(ctx, patience); err != nil { // it waits for the kernel's start
			t.Fatal(err)
		}
		if hasJupyterLab() && c.conn.Subprotocol() != kernelV1 {
			t.Fatalf("the kernel's websocket speaks %q", c.conn.Subprotocol())
		}
		cells = append(cells, c)
		reading.Go(func() { c.readAll(ctx) })
	}
	code := fmt.Sprintf("import time\nfor i in range(%d):\n    print(str(i) + ' ' * %d, flush=True)\n    time.sleep(%f)\n", cellLines, size, lasts.Seconds()/cellLines)
	if err := cells[0].conn.execute(ctx, "count", code); err != nil {
		t.Fatal(err)
	}
	return cells, func() {
		reading.Wait()
		endKernel(t, kernel, token)
	}
}

// endKernel frees the memory of a kernel, of which a job has few.
func endKernel(t *testing.T, kernel *url.URL, token string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, kernel.String(), http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Authorization", "token "+token)
	if res, err := browser().Do(req); err == nil {
		_ = res.Body.Close()
	} else {
		t.Log("a kernel is left:", err)
	}
}

func (c *countingCell) connect(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.mu.Lock()
	u := *c.channels
	u.RawQuery += "&session_id=" + c.session
	c.mu.Unlock()
	conn, err := dialKernel(ctx, u.String())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.rest = conn, ""
	return nil
}

// reload ends the tab's websocket as the user does who loads the page again.
func (c *countingCell) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session += "-reloaded"
	_ = c.conn.CloseNow()
}

// readAll counts the lines of one websocket after another until the cell has ended.
func (c *countingCell) readAll(ctx context.Context) {
	for ctx.Err() == nil && !c.read(ctx) {
		for c.connect(ctx, 10*time.Second) != nil && ctx.Err() == nil {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// read counts the lines of one websocket, and reports whether the cell has ended.
func (c *countingCell) read(ctx context.Context) bool {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	defer func() { _ = conn.CloseNow() }()
	for {
		msg, err := conn.read(ctx)
		c.mu.Lock()
		switch {
		case err != nil:
			c.lost++
		case msg.Type == "stream":
			c.countLocked(msg.Content.Text)
		case msg.Type == "status" && msg.Content.State == "idle" && msg.Parent.ID == "count":
			c.idle = true
		}
		over := c.idle
		c.mu.Unlock()
		if err != nil || over {
			return over
		}
	}
}

func (c *countingCell) countLocked(text string) {
	text, c.rest = c.rest+text, ""
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			c.rest = line
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			continue
		}
		if len(c.seen) == 0 {
			close(c.printed)
		}
		if _, again := c.seen[n]; again {
			c.twice++
		}
		if n < c.last {
			c.late++
		}
		c.seen[n], c.last = time.Now(), max(n, c.last)
	}
}

// cutResult is what one tab has received of a cell during which the connection was lost.
type cutResult struct {
	missing, twice, late int           // lines
	websockets           int           // that ended
	resumed              time.Duration // from the return to the next line; negative: none came
}

func (c *countingCell) result(restored time.Time) cutResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := cutResult{missing: cellLines - len(c.seen), twice: c.twice, late: c.late, websockets: c.lost, resumed: -1}
	for _, at := range c.seen {
		if d := at.Sub(restored); d >= 0 && (r.resumed < 0 || d < r.resumed) {
			r.resumed = d
		}
	}
	return r
}

// exact reports whether every line came, in order, once.
func (r cutResult) exact() bool { return r.missing+r.twice+r.late == 0 }

func (r cutResult) String() string {
	next := "none"
	if r.resumed >= 0 {
		next = seconds(r.resumed)
	}
	return fmt.Sprintf("%d | %d | %d | %d | %s", r.missing, r.twice, r.late, r.websockets, next)
}

// cutter is a notebook on a laptop that is reached by tunctl and, beside that, by
// `ssh -L`.
type cutter struct {
	*laptop
	base, plain *url.URL
	token       string
	endPlain    func() // ends the `ssh -L` that runs; another is started then
}

func newCutter(t *testing.T, lab *real.Lab, host string) *cutter {
	t.Helper()
	c := &cutter{laptop: furnish(t, lab, withJupyter(strings.Replace(notebookConfig, "lab-login", host, 1)))}
	t.Cleanup(c.close)
	if host == codeHost {
		c.loginWithCode(host)
	}
	c.run("up", "--no-open")
	c.base, c.token = c.page()
	t.Log(jupyterVersion(t, c.base, c.token))
	return c
}

// codeHost is the server that asks for a one-time code.
const codeHost = "lab-otp"

// startPlain starts `ssh -N -L` as people do who want to keep it: it notices a dead
// connection, and is started again when it has ended.
func (c *cutter) startPlain() {
	c.t.Helper()
	local, at := freeAddress(c.t), c.status().Endpoint
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var pid atomic.Int32
	c.endPlain = func() { _ = syscall.Kill(int(pid.Load()), syscall.SIGTERM) }
	running.Go(func() {
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, "ssh", "-F", c.lab.SSHConfig(), "-N", "-o", "ExitOnForwardFailure=yes", "-o", "ConnectTimeout=10",
				"-o", "ServerAliveInterval=15", "-L", fmt.Sprintf("%s:%s:%d", local, at.Host, at.Port), "lab-login")
			if cmd.Start() == nil {
				pid.Store(int32(cmd.Process.Pid))
				_ = cmd.Wait()
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
	c.t.Cleanup(func() { cancel(); running.Wait() })
	c.plain = &url.URL{Scheme: "http", Host: local, Path: "/"}
	for began := time.Now(); fetch(c.plain, c.token, patience) != nil; pause(c.t, 100*time.Millisecond) {
		if time.Since(began) > patience {
			c.t.Fatal("ssh -L does not forward")
		}
	}
}

// outage is how the connection is lost while a cell prints, and what the cell prints.
type outage struct {
	name   string
	happen func(c *cutter, tabs []*countingCell) // from the loss to the return
	off    time.Duration                         // how long it takes, about
	host   string                                // another than lab-login
	size   int                                   // of a line, besides its number
	tabs   int                                   // more than one
}

// ways are how the page is reached.
func (c *cutter) ways() map[string]*url.URL {
	ways := map[string]*url.URL{"tunctl": c.base}
	if c.plain != nil {
		ways["ssh -L"] = c.plain
	}
	return ways
}

// lose lets an outage happen during a cell that prints all the time.
func (c *cutter) lose(o outage) (by map[string]cutResult) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), o.off+patience)
	defer cancel()
	all, waits := map[string]*countingCell{}, []func(){}
	var tabs []*countingCell
	for way, at := range c.ways() {
		cells, wait := runCountingCell(ctx, c.t, at, c.token, beforeCut+o.off+afterCut, o.size, max(1, o.tabs))
		for i, cell := range cells {
			if i > 0 {
				way += ", second tab"
			}
			all[way] = cell
		}
		tabs, waits = append(tabs, cells...), append(waits, wait)
	}
	for _, cell := range tabs {
		select {
		case <-cell.printed:
		case <-ctx.Done():
			c.t.Fatal("the cell prints nothing")
		}
	}
	pause(c.t, beforeCut)
	o.happen(c, tabs)
	restored := time.Now()
	for _, wait := range waits {
		wait()
	}
	by = map[string]cutResult{}
	for way, cell := range all {
		by[way] = cell.result(restored)
	}
	return by
}

// cut is an outage of the network, for a time.
func cut(what string, off time.Duration) func(*cutter, []*countingCell) {
	return func(c *cutter, _ []*countingCell) {
		c.lab.Cut(what)
		pause(c.t, off)
		c.lab.Restore(what)
	}
}

// roam is a lost Wi-Fi after which the laptop has another address.
func roam(off time.Duration) func(*cutter, []*countingCell) {
	return func(c *cutter, _ []*countingCell) {
		c.lab.Cut("wifi")
		pause(c.t, off)
		c.lab.Restore("wifi")
		c.lab.Roam()
	}
}

// campaignOff is how long the connection is lost in a campaign.
const campaignOff = 2 * time.Minute

// isCampaign reports whether the long outages are wanted.
func isCampaign() bool { return os.Getenv("TUNCTL_CUTS") != "" }

// TestWhatRunsInsideAJobContinuesAtAnotherAddress loses the connection to a notebook whose job has
// more inside: a shell with a full-screen program and one in the background, an editor, and a
// command that prints much.
func TestWhatRunsInsideAJobContinuesAtAnotherAddress(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	off := 12 * time.Second
	if isCampaign() {
		off = campaignOff
	}
	c := newCutter(t, real.Start(t), "lab-login")
	shells := c.openShells()
	by := c.lose(outage{off: off, happen: func(c *cutter, _ []*countingCell) {
		c.lab.Cut("wifi")
		shells.typeAway()
		pause(c.t, off)
		c.untilHeld("without a connection four streams wait", func(h api.Held) bool { return !h.IsOver() && h.Streams >= 4 }) // the cell's is one
		c.lab.Restore("wifi")
		c.lab.Roam()
	}})
	shells.check(off)
	for way, r := range by {
		t.Logf("%s: lines missing, twice, late | websockets lost | next line: %v", way, r)
		if !r.exact() || r.websockets > 0 {
			t.Errorf("%s: %+v", way, r)
		}
	}
	c.untilHeld("the end of the cut is noted", api.Held.IsOver)
	if h := c.status().Held; h == nil || !strings.Contains(words.HeldOver(*h), "; nothing was lost; 1 program waited ") {
		t.Errorf("afterwards: held %+v", h)
	}
}

// twentyTimes is a laptop that changes its network again and again.
func twentyTimes() outage {
	return outage{name: "20 times another address in a row", off: 100 * time.Second, happen: func(c *cutter, _ []*countingCell) {
		for range 20 {
			roam(time.Second)(c, nil)
			pause(c.t, 4*time.Second)
		}
	}}
}

// TestWhatTwentyLostConnectionsLeave counts what stays on the cluster.
func TestWhatTwentyLostConnectionsLeave(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	if !isCampaign() {
		t.Skip("counts for three minutes with TUNCTL_CUTS=1")
	}
	t.Parallel()
	c := newCutter(t, real.StartWith(t, real.Options{Accounting: true}), "lab-login")
	t.Log("before:", c.traces())
	for way, r := range c.lose(twentyTimes()) {
		if !r.exact() || r.websockets > 0 {
			t.Errorf("%s: %+v", way, r)
		}
	}
	t.Log("after 20 cuts:", c.traces())
	pause(t, time.Minute)
	t.Log("a minute later:", c.traces())
	c.run("down")
	pause(t, 10*time.Second) // srun is ended 5 s after its connection
	t.Log("after down:", c.traces())
}

// traces are the steps of the notebook's job, and the user's processes on the cluster.
func (c *cutter) traces() string {
	c.t.Helper()
	records := strings.Fields(c.inHome("sacct --noheader --parsable2 --format=JobID,State --jobs=" + c.status().Job.ID))
	steps := slices.DeleteFunc(records, func(record string) bool {
		id, _, _ := strings.Cut(record, "|")
		return !strings.Contains(id, ".") || strings.HasSuffix(id, ".batch") || strings.HasSuffix(id, ".extern")
	})
	return fmt.Sprintf("%d steps in the accounting, %d now; on login1 %v; on the node %v",
		len(steps), len(c.steps()), programs(c.lab.Processes("login1")), programs(c.lab.Processes(c.status().Job.Node)))
}

// programs counts command lines by their first word, and those of relays and ways to them apart.
func programs(lines []string) map[string]int {
	found := map[string]int{}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(name, "python3") && strings.HasSuffix(line, "tunctl-relay") {
			name = "tunctl-relay"
		}
		found[name]++
	}
	return found
}

// outages are those of the campaign.
func outages() []outage {
	var list []outage
	for _, off := range []time.Duration{5 * time.Second, 20 * time.Second, 80 * time.Second, 2 * time.Minute, 10 * time.Minute} {
		list = append(list,
			outage{name: "the Wi-Fi is off for " + short(off), happen: cut("wifi", off), off: off},
			outage{name: "the network is silent for " + short(off), happen: cut("silent", off), off: off},
			outage{name: "another address after " + short(off), happen: roam(off), off: off})
	}
	const long = campaignOff
	return append(list,
		twentyTimes(),
		outage{name: "the login node is frozen for 1m", off: time.Minute, happen: func(c *cutter, _ []*countingCell) {
			c.lab.FreezeListener("lab-login")
			c.lab.FreezeConns("lab-login")
			pause(c.t, time.Minute)
			c.lab.ContListener("lab-login")
			c.lab.ContConns("lab-login")
		}},
		outage{name: "sshd is restarted, and its connections end", off: time.Second, happen: func(c *cutter, _ []*countingCell) {
			c.lab.KillConns("lab-login")
			c.lab.RestartSSHD("lab-login")
		}},
		outage{name: "the agent is restarted", off: 5 * time.Second, happen: func(c *cutter, _ []*countingCell) { c.run("agent", "restart") }},
		outage{name: "a one-time code is needed, and comes after 20s", host: codeHost, off: 20 * time.Second, happen: func(c *cutter, _ []*countingCell) {
			c.lab.KillConns(codeHost)
			pause(c.t, 20*time.Second)
			c.loginWithCode(codeHost)
		}},
		outage{name: "20 MB are printed, another address after 2m", size: 34_000, happen: roam(long), off: long},
		outage{name: "two tabs, another address after 20s", tabs: 2, happen: roam(20 * time.Second), off: 20 * time.Second},
		outage{name: "two tabs, another address after 2m", tabs: 2, happen: roam(long), off: long},
		outage{name: "the page is loaded again during 20s, another address", off: 20 * time.Second, happen: func(c *cutter, tabs []*countingCell) {
			c.lab.Cut("wifi")
			pause(c.t, 10*time.Second)
			for _, tab := range tabs {
				tab.reload()
			}
			pause(c.t, 10*time.Second)
			c.lab.Restore("wifi")
			c.lab.Roam()
		}})
}

// TestWhatALostConnectionCosts measures what a notebook's page receives of a cell when the
// connection is lost, and writes a table of it.
func TestWhatALostConnectionCosts(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	if !isCampaign() {
		t.Skip("measures for half an hour with TUNCTL_CUTS=1")
	}
	list := outages()
	rows := make([]string, len(list))
	t.Run("measure", func(t *testing.T) {
		for i, o := range list {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				c := newCutter(t, real.Start(t), cmp.Or(o.host, "lab-login"))
				if o.host == "" {
					c.startPlain()
				}
				by := c.lose(o)
				for _, way := range slices.Sorted(maps.Keys(by)) {
					rows[i] += fmt.Sprintf("| %s | %s | %v |\n", o.name, way, by[way])
				}
				t.Logf("\n%s", rows[i])
				if by["tunctl"].websockets > 0 { // why is in the log
					t.Logf("%s\nheld: %+v", c.agentLog(), c.status().Held)
				}
			})
		}
	})
	text := "| what happened | way | lines missing | twice | late | websockets lost | next line |\n|---|---|---|---|---|---|---|\n" + strings.Join(rows, "")
	t.Logf("\n%s", text)
	if err := os.WriteFile(artifact(t, "cuts.md"), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

// TestAgentEnd has a cell print while the agent ends, and the page connects again by the next one.
func TestAgentEnd(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	for name, end := range map[string]func(c *cutter){
		"restarted": func(c *cutter) { c.run("agent", "restart") },
		"killed": func(c *cutter) {
			c.killAgent()
			c.run("up", "--no-open")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutter(t, real.Start(t), "lab-login")
			by := c.lose(outage{off: 10 * time.Second, happen: func(c *cutter, _ []*countingCell) { end(c) }})
			if r := by["tunctl"]; !r.exact() {
				t.Errorf("lines missing, twice, late | websockets lost | next line: %v\n%s", r, c.agentLog())
			}
		})
	}
}
