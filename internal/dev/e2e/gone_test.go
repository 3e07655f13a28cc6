//go:build linux

package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
)

// loss is what happens to the page of a notebook, or to what is below it, while a cell prints.
type loss struct {
	name   string
	lasts  time.Duration // of the cell
	happen func(g *gonePages)
}

// gonePages are pages of notebooks of one job, of which each runs a cell that prints numbered lines:
// by tunctl, and by `ssh -L`.
type gonePages struct {
	*cutter
	ours, plain *notebookTab // plain may be nil
	version     string       // of the server
}

// notebookTab is a notebook in a browser of its own.
type notebookTab struct {
	*tab
	base   *url.URL
	name   string // without .ipynb
	closed bool
}

func (n *notebookTab) close() { n.closed = true; n.call("Page.close", nil) }

func (n *notebookTab) kill() {
	n.t.Helper()
	n.closed = true
	if err := n.browser.Kill(); err != nil {
		n.t.Fatal(err)
	}
}

func (n *notebookTab) reload() { n.call("Page.reload", nil) }

// both does to each page the same.
func both(what func(*notebookTab)) func(*gonePages) {
	return func(g *gonePages) {
		for _, n := range g.all() {
			what(n)
		}
	}
}

func (g *gonePages) all() []*notebookTab {
	return slices.DeleteFunc([]*notebookTab{g.ours, g.plain}, func(n *notebookTab) bool { return n == nil })
}

func losses(away time.Duration) []loss {
	const brief = 30 * time.Second
	return []loss{
		{"the tab is closed, and opened after the end", brief, both((*notebookTab).close)},
		{"the tab is loaded again", brief, both((*notebookTab).reload)},
		{"the browser is killed", brief, both((*notebookTab).kill)},
		{"the agent is restarted", brief, func(g *gonePages) { g.run("agent", "restart"); g.endPlain() }},
		{"the agent is killed, and `up` comes 2 s later", brief, func(g *gonePages) { g.upAfter(2 * time.Second) }},
		{"the agent is killed, and `up` comes 30 s later", brief + 30*time.Second, func(g *gonePages) { g.upAfter(30 * time.Second) }},
		{"another version of tunctl replaces the agent", brief, (*gonePages).upgrade},
		{"the laptop is off for " + short(away) + ", and has another address then", away + brief, func(g *gonePages) {
			g.killAgent()
			both((*notebookTab).kill)(g)
			roam(away)(g.cutter, nil)
			g.run("up", "--no-open")
		}},
		{"the tab is closed, and the job ends by its time limit", 5 * time.Minute, func(g *gonePages) {
			both((*notebookTab).close)(g)
			if out, err := g.lab.Exec("ctl", "scontrol", "update", "jobid="+g.status().Job.ID, "timelimit=1"); err != nil {
				g.t.Fatal(err, out)
			}
			g.lab.WaitJob(g.status().Job.ID, "TIMEOUT", "")
		}},
	}
}

// upAfter kills the agent, and brings the session up again some time later.
func (g *gonePages) upAfter(d time.Duration) {
	g.killAgent()
	g.endPlain()
	pause(g.t, d)
	g.run("up", "--no-open")
}

// upgrade has a program of another version restart the agent.
func (g *gonePages) upgrade() {
	program := filepath.Join(g.t.TempDir(), "tunctl")
	if err := testprogram.Build(g.t.Context(), program, "v0.0.1-other"); err != nil {
		g.t.Fatal(err)
	}
	cmd := g.command("agent", "restart")
	cmd.Path = program
	if out, err := cmd.CombinedOutput(); err != nil {
		g.t.Fatalf("%v\n%s", err, out)
	}
	g.endPlain()
}

// openPages brings a session up, and shows new notebooks in which a cell of some lines runs.
func openPages(t *testing.T, config string, withPlain bool, lasts time.Duration) *gonePages {
	t.Helper()
	l := furnish(t, real.Start(t), withJupyter(config))
	prepareNotebooks(l)
	g := &gonePages{cutter: &cutter{laptop: l}}
	t.Cleanup(g.close)
	g.inHome("rm -rf .tunctl/output ours.* plain.* go") // the lab may have been another test's
	g.run("up", "--no-open")
	g.base, g.token = g.page()
	g.version = jupyterVersion(t, g.base, g.token)
	t.Log(g.version)
	g.ours = g.startCell("ours", g.base, lasts)
	if withPlain {
		g.startPlain()
		g.plain = g.startCell("plain", g.cutter.plain, lasts)
	}
	g.inHome("touch go")
	return g
}

// startCell runs a cell until it has printed a hundred lines. It prints the others once there is a file called go,
// and notes in another what it has printed.
func (g *gonePages) startCell(name string, base *url.URL, lasts time.Duration) *notebookTab {
	g.t.Helper()
	n := &notebookTab{base: base, name: name}
	code := fmt.Sprintf(`import os, time
with open(%q, "w") as f:
    for i in range(%d):
        while i == 101 and not os.path.exists("go"):
            time.sleep(0.1)
        print(i, flush=True)
        print(i, file=f, flush=True)
        time.sleep(%f)
`, name+".printed", cellLines, lasts.Seconds()/cellLines)
	newNotebook(g.t, base, g.token, name, []string{code})
	g.open(n)
	if err := n.evaluate(pageOfNotebooks().run, new(bool)); err != nil {
		g.t.Fatal(err)
	}
	n.until("the cell prints", pageOfNotebooks().printed+`.includes("\n100\n")`)
	return n
}

// open shows a notebook in a new browser.
func (g *gonePages) open(n *notebookTab) {
	g.t.Helper()
	n.tab, n.closed = showNotebook(g.t, n.base, g.token, n.name), false
}

// printed are the lines that the cell has printed, when it is over.
func (g *gonePages) printed(n *notebookTab) map[int]bool {
	g.t.Helper()
	for looks := 0; ; pause(g.t, time.Second) {
		lines := numbers(g.inHome("cat " + n.name + ".printed"))
		if len(lines) == cellLines || g.status().State == api.SessionEnded {
			return lines
		}
		if looks++; looks > 1200 {
			g.t.Fatalf("the cell of %s.ipynb printed %d lines", n.name, len(lines))
		}
	}
}

func numbers(text string) map[int]bool {
	found := map[int]bool{}
	for line := range strings.Lines(text) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			found[n] = true
		}
	}
	return found
}

// received is what reached the user: lines in the page, opened again if it was closed, and in `tunctl output`.
type received struct {
	page, output, saved, missing int

	over bool // the job has ended, and there is no page
}

func (r received) String() string {
	return fmt.Sprintf("%d missing (%d in the page, %d in tunctl output, %d in the saved notebook)", r.missing, r.page, r.output, r.saved)
}

// cell is what docs/faults.md has of it.
func (r received) cell() string {
	text := []string{strconv.Itoa(r.page), strconv.Itoa(r.output)}
	if r.over {
		text[0] = "–"
	}
	if r.output == 0 {
		text[1] = "–"
	}
	return strings.Join(text, ", ")
}

// receive counts what came of the cell. A notebook that was saved has to be found in the folder.
func (g *gonePages) receive(n *notebookTab) (r received) {
	g.t.Helper()
	want := g.printed(n)
	page := map[int]bool{}
	if r.over = g.status().State == api.SessionEnded; !r.over {
		if n.closed {
			g.open(n)
		}
		// What comes late is counted, too, as long as something comes.
		for last, idle := 0, 0; len(page) < len(want) && idle < 300; pause(g.t, 200*time.Millisecond) {
			var text string
			if n.evaluate(pageOfNotebooks().printed, &text) == nil { // it fails while the page is loaded
				page = numbers(text)
			}
			if idle++; len(page) > last {
				last, idle = len(page), 0
			}
		}
	}
	r.page = len(page)
	if n == g.ours {
		// The last lines are written down within some seconds, or more on a busy machine.
		output := map[int]bool{}
		for looks := 0; len(page)+len(output) < len(want) && looks < 120; pause(g.t, time.Second) {
			looks++
			text, _ := g.command("output", "jupyter", "--all").Output() // it fails where there is none
			output = numbers(string(text))
		}
		if r.output = len(output); r.output > 0 {
			g.run("output", "jupyter", "--save")
			r.saved = len(numbers(printedIn(g.t, g.inHome("cat ours.recovered.ipynb"))))
		}
		for line := range output {
			page[line] = true
		}
	}
	for line := range want {
		if !page[line] {
			r.missing++
		}
	}
	return r
}

// printedIn is what the streams of a notebook's cells have.
func printedIn(t *testing.T, text string) string {
	t.Helper()
	var notebook struct {
		Cells []struct {
			Outputs []struct{ Text []string }
		}
	}
	if err := json.Unmarshal([]byte(text), &notebook); err != nil {
		t.Fatalf("%v\n%.500s", err, text)
	}
	all := ""
	for _, c := range notebook.Cells {
		for _, o := range c.Outputs {
			all += strings.Join(o.Text, "")
		}
	}
	return all
}

// TestClosedTab closes a tab while a cell prints, and shows the saved notebook in another.
func TestClosedTab(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "browser")
	t.Parallel()
	g := openPages(t, notebookConfig, false, 10*time.Second)
	g.ours.close()
	if r := g.receive(g.ours); r.missing > 0 || r.saved != cellLines {
		t.Fatal(r)
	}
	saved := showNotebook(t, g.base, g.token, "ours.recovered")
	saved.until("the saved notebook shows the output", pageOfNotebooks().printed+fmt.Sprintf(`.endsWith("\n%d\n")`, cellLines-1))
	saved.picture(artifact(t, "recovered.png"))
	if lines := numbers(saved.text(pageOfNotebooks().printed)); len(lines) != cellLines {
		t.Errorf("the saved notebook shows %d lines", len(lines))
	}
	const code = "os.path.exists"
	if log := g.agentLog(); strings.Contains(log, code) || !strings.Contains(log, "agent started") {
		t.Errorf("the agent's log has the cell's code:\n%s", log)
	}
	bundle := filepath.Join(t.TempDir(), "bundle.zip")
	_ = g.command("doctor", "--bundle", bundle).Run() // it fails where something could be better
	z, err := zip.OpenReader(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || bytes.Contains(text, []byte(code)) {
			t.Errorf("%s of the bundle has the cell's code: %v\n%s", f.Name, err, text)
		}
	}
	g.run("down", "--cancel")
	if out, _ := g.run("status"); !strings.Contains(out, "1 cell finished while the page was closed") {
		t.Errorf("without a job, the status is:\n%s", out)
	}
	g.run("output", "--clear", "--yes")
	if out, _ := g.run("status"); strings.Contains(out, "finished while") {
		t.Errorf("without output, the status is:\n%s", out)
	}
}

// TestClosedTabWithoutResume closes a tab while a cell prints, where nothing waits inside the job: the cell goes on,
// as with ssh -L, and nothing of it is kept.
func TestClosedTabWithoutResume(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "browser")
	t.Parallel()
	g := openPages(t, "[host.lab-login]\nresume = false\n"+notebookConfig, false, 10*time.Second)
	g.ours.close()
	if lines := g.printed(g.ours); len(lines) != cellLines {
		t.Errorf("the cell printed %d lines", len(lines))
	}
	if out, err := g.command("output", "jupyter", "--all").CombinedOutput(); err == nil || !strings.Contains(string(out), "no output of session jupyter is kept") {
		t.Errorf("%v\n%s", err, out)
	}
	if kept := g.inHome("ls -A .tunctl/output 2>/dev/null || true"); kept != "" {
		t.Errorf("collected is %s", kept)
	}
	if s := g.status(); s.Cells != (api.Cells{}) {
		t.Errorf("%+v", s)
	}
}

// campaignAway is how long the laptop is off in a campaign.
const campaignAway = 10 * time.Minute

// TestGonePages measures what reaches the user of a cell that prints while its page, or what is below it,
// is gone, for the table in docs/faults.md.
func TestGonePages(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "browser")
	if !isCampaign() {
		t.Skip("measures for half an hour with TUNCTL_CUTS=1")
	}
	list := losses(campaignAway)
	notes := make([]func(row []string), len(list))
	t.Run("measure", func(t *testing.T) {
		for i, o := range list {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				g := openPages(t, notebookConfig, true, o.lasts)
				o.happen(g)
				ours, plain := g.receive(g.ours), g.receive(g.plain)
				notes[i] = func(row []string) { noteGone(row, g.version, ours, plain.missing) }
				t.Logf("%s: %v; ssh -L: %d missing", o.name, ours, plain.missing)
				if ours.missing > 0 {
					t.Errorf("%v\n%s", ours, g.agentLog())
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	_, measured := measuredCells(t)
	for i, o := range list {
		if measured[o.name] == nil { // the row is new
			measured[o.name] = []string{"–", "–", "–", "0", "–; –; –"}
		}
		notes[i](measured[o.name])
	}
	text := goneTable(measured)
	t.Logf("\n%s", text)
	if err := os.WriteFile(artifact(t, "gone.md"), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
	if *update {
		updateFaultPage(t, func(to map[string][]string) { maps.Copy(to, measured) })
	}
}
