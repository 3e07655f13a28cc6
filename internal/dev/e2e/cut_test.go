//go:build linux

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

const (
	printEvery = 20 * time.Millisecond // between two lines of a cell
	beforeCut  = 2 * time.Second       // a cell prints before the link is cut
	afterCut   = 4 * time.Second       // and after it is back
)

// countingCell is a cell that prints numbered lines, and what came of them. Its client
// reconnects as JupyterLab's does.
type countingCell struct {
	total   int
	printed chan struct{} // closed when the first line has come

	mu   sync.Mutex
	seen map[int]time.Time // when each line came
	lost int               // websockets that ended before the cell
	idle bool              // the kernel says that the cell has ended
}

// runCountingCell prints lines in a new kernel until ctx ends or all that is to come has
// come.
func runCountingCell(ctx context.Context, t *testing.T, base *url.URL, token string, lasts time.Duration) (cell *countingCell, wait func()) {
	t.Helper()
	c := &countingCell{total: int(lasts / printEvery), printed: make(chan struct{}), seen: map[int]time.Time{}}
	kernel := base.JoinPath("api/kernels", startKernel(ctx, t, base, token))
	u := kernel.JoinPath("channels")
	u.Scheme, u.RawQuery = "ws", "session_id=count&token="+token
	var reading sync.WaitGroup
	first, err := c.connect(ctx, u, patience) // it waits for the kernel's start
	if err != nil {
		t.Fatal(err)
	}
	code := fmt.Sprintf("import time\nfor i in range(%d):\n    print(i, flush=True)\n    time.sleep(%f)\n", c.total, printEvery.Seconds())
	if err := wsjson.Write(ctx, first, executeRequest("count", code)); err != nil {
		t.Fatal(err)
	}
	reading.Go(func() {
		for conn := first; ctx.Err() == nil; {
			if conn != nil && c.read(ctx, conn) {
				return
			}
			conn, _ = c.connect(ctx, u, 10*time.Second)
			if conn == nil {
				select {
				case <-time.After(200 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}
	})
	return c, func() {
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

func (c *countingCell) connect(ctx context.Context, u *url.URL, limit time.Duration) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, u.String(), nil) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	return conn, nil
}

// read counts the lines of one websocket, and reports whether the cell has ended.
func (c *countingCell) read(ctx context.Context, conn *websocket.Conn) bool {
	defer func() { _ = conn.CloseNow() }()
	for {
		var msg struct {
			Type   string `json:"msg_type"`
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Content struct {
				Text  string `json:"text"`
				State string `json:"execution_state"`
			} `json:"content"`
		}
		err := wsjson.Read(ctx, conn, &msg)
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
	for line := range strings.Lines(text) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			if len(c.seen) == 0 {
				close(c.printed)
			}
			c.seen[n] = time.Now()
		}
	}
}

// cutResult is what one client has received across a cut.
type cutResult struct {
	lines, total int
	websockets   int           // that ended
	resumed      time.Duration // from the link's return to the next line; negative: none came
}

func (c *countingCell) result(restored time.Time) cutResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := cutResult{lines: len(c.seen), total: c.total, websockets: c.lost, resumed: -1}
	for _, at := range c.seen {
		if d := at.Sub(restored); d >= 0 && (r.resumed < 0 || d < r.resumed) {
			r.resumed = d
		}
	}
	return r
}

// cutter is a notebook on a laptop that is reached by tunctl and, beside that, by
// `ssh -L`.
type cutter struct {
	*laptop
	base, plain *url.URL
	token       string
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	c := &cutter{laptop: newLaptop(t, notebookConfig)}
	c.run("up", "--no-open")
	c.base, c.token = c.page()
	return c
}

// startPlain starts `ssh -N -L`.
func (c *cutter) startPlain() {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	local := l.Addr().String()
	_ = l.Close()
	at := c.status().Endpoint
	cmd := exec.CommandContext(c.t.Context(), "ssh", "-F", c.lab.SSHConfig(), "-N", "-o", "ExitOnForwardFailure=yes",
		"-L", fmt.Sprintf("%s:%s:%d", local, at.Host, at.Port), "lab-login")
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c.plain = &url.URL{Scheme: "http", Host: local, Path: "/"}
	for began := time.Now(); fetch(c.plain, c.token, patience) != nil; pause(c.t, 100*time.Millisecond) {
		if time.Since(began) > patience {
			c.t.Fatal("ssh -L does not forward")
		}
	}
}

// cut takes the Wi-Fi away for a while, during a cell that prints all the time. With
// roam, the laptop has another address afterwards.
func (c *cutter) cut(off time.Duration, roam bool) (by map[string]cutResult) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), off+patience)
	defer cancel()
	ways := map[string]*url.URL{"tunctl": c.base}
	if !roam {
		ways["ssh -L"] = c.plain
	}
	cells, waits := map[string]*countingCell{}, []func(){}
	for name, at := range ways {
		cell, wait := runCountingCell(ctx, c.t, at, c.token, beforeCut+off+afterCut)
		cells[name] = cell
		waits = append(waits, wait)
	}
	for _, cell := range cells {
		select {
		case <-cell.printed:
		case <-ctx.Done():
			c.t.Fatal("the cell prints nothing")
		}
	}
	pause(c.t, beforeCut)
	if roam {
		c.lab.Roam()
	}
	c.lab.Cut("wifi")
	pause(c.t, off)
	c.lab.Restore("wifi")
	restored := time.Now()
	for _, wait := range waits {
		wait()
	}
	by = map[string]cutResult{}
	for name, cell := range cells {
		by[name] = cell.result(restored)
	}
	return by
}

func TestALostWiFiLosesNoOutput(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	c := newCutter(t)
	c.startPlain()
	for name, r := range c.cut(10*time.Second, false) {
		t.Logf("%s: %d of %d lines, the next one %v after the link was back", name, r.lines, r.total, r.resumed)
		if r.lines < r.total || r.websockets > 0 {
			t.Errorf("%s received %d of %d lines and lost %d websockets", name, r.lines, r.total, r.websockets)
		}
	}
}

// TestWhatALostWiFiCosts measures what a notebook's page receives when the Wi-Fi goes for
// a while. TUNCTL_CUTS says how often each is repeated.
func TestWhatALostWiFiCosts(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	runs, _ := strconv.Atoi(os.Getenv("TUNCTL_CUTS"))
	if runs == 0 {
		t.Skip("measures for an hour with TUNCTL_CUTS=10")
	}
	t.Run("measure", func(t *testing.T) {
		for name, roam := range map[string]bool{"the same address": false, "another address": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newCutter(t)
				if !roam {
					c.startPlain()
				}
				offs := []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, time.Minute}
				all := map[string][]cutResult{}
				for range runs {
					for _, off := range offs {
						for way, r := range c.cut(off, roam) {
							key := fmt.Sprintf("| %s | %4s | %s |", name, short(off), way)
							t.Logf("%s %+v", key, r)
							all[key] = append(all[key], r)
						}
						c.until("ready", is(api.SessionReady))
					}
					text := cutTable(all) // so far
					t.Logf("\n%s", text)
					if err := os.WriteFile(artifact(t, "cuts "+name+".md"), []byte(text), 0o644); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
}

// cutTable is what came of cuts by network, length and way, in Markdown.
func cutTable(all map[string][]cutResult) string {
	table := "| afterwards | off | way | runs | complete | lines | websockets lost | next line: median | slowest |\n|---|---|---|---|---|---|---|---|---|\n"
	for _, key := range slices.Sorted(maps.Keys(all)) {
		table += key + cutCells(all[key]) + "\n"
	}
	return table
}

func cutCells(results []cutResult) string {
	var got, total, complete, websockets int
	var resumed []time.Duration
	for _, r := range results {
		got, total, websockets = got+r.lines, total+r.total, websockets+r.websockets
		if r.lines == r.total {
			complete++
		}
		if r.resumed >= 0 {
			resumed = append(resumed, r.resumed)
		}
	}
	slices.Sort(resumed)
	median, slowest := "–", "–"
	if n := len(resumed); n > 0 {
		median, slowest = seconds(resumed[n/2]), seconds(resumed[n-1])
	}
	return fmt.Sprintf(" %d | %d | %d of %d | %d | %s | %s |", len(results), complete, got, total, websockets, median, slowest)
}
