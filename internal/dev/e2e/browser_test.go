package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

func TestAnOpenNotebookOutlivesACutAtOneAddress(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "browser")
	t.Parallel()
	l := newLaptop(t, notebookConfig)
	page, tab, token := openNotebook(l)
	at := tab.address()

	// A page that stays open gets its kernel back by itself.
	l.lab.Cut("silent")
	l.until("reconnecting", is(api.SessionReconnecting))
	l.lab.Restore("silent")
	repaired := time.Now()
	l.until("ready", is(api.SessionReady))
	t.Logf("ready %v after the link was back", time.Since(repaired).Round(time.Millisecond))
	tab.until("the kernel is connected again", page.connected)
	t.Logf("the open page has its kernel %v after the link was back", time.Since(repaired).Round(time.Millisecond))

	// One that is loaded meanwhile says what is going on, and becomes the notebook.
	l.lab.Cut("silent")
	l.until("reconnecting", is(api.SessionReconnecting))
	if err := tab.evaluate(`setTimeout(() => location.reload(), 0); true`, new(bool)); err != nil {
		t.Fatal(err)
	}
	tab.until("the waiting page is shown", `document.querySelector("p.by") !== null && document.querySelector("p.by").textContent.includes("tunctl")`)
	tab.picture(artifact(t, "waiting.png"))
	if text := tab.text(`document.body.innerText`); strings.Contains(text, token) {
		t.Errorf("the waiting page shows the token:\n%s", text)
	}
	l.lab.Restore("silent")
	repaired = time.Now()
	tab.until("the notebook is back", page.connected)
	t.Logf("the waiting page is the notebook %v after the link was back", time.Since(repaired).Round(time.Millisecond))
	if now := tab.address(); now != at {
		t.Errorf("the page was at %s and is at %s", at, now)
	}
	tab.until("the kernel computes", page.computes)
	tab.picture(artifact(t, "notebook-back.png"))
	l.run("down", "--cancel")
}

// labNotebook is the notebook that JupyterLab shows. Its current widget is none while the page has
// not got the focus.
const labNotebook = `[...jupyterapp.shell.widgets("main")][0]`

// notebookPage is what a page has for its scripts: JupyterLab's, or that of the classic notebook.
type notebookPage struct {
	path      string // of a notebook, without its name; of JupyterLab, in a workspace that has the notebook's
	connected string // whether the kernel's websocket is open
	computes  string // whether the kernel has computed something
	run       string // runs all cells
	printed   string // what the first cell has printed so far
}

var (
	classicPage = notebookPage{
		path:      "notebooks",
		connected: `typeof Jupyter !== "undefined" && !!Jupyter.notebook && !!Jupyter.notebook.kernel && Jupyter.notebook.kernel.is_connected()`,
		computes: `(() => {
			if (window.answer === undefined) {
				Jupyter.notebook.kernel.execute("print(6*7)", {iopub: {output: (m) => { window.answer = m.content.text; }}});
				window.answer = null; // else it fails, and is tried again
			}
			return window.answer === "42\n";
		})()`,
		run:     `Jupyter.notebook.execute_all_cells(); true`,
		printed: `Jupyter.notebook.get_cell(0).output_area.outputs.map((o) => o.text).join("")`,
	}
	labPage = notebookPage{
		path:      "lab/workspaces/NAME/tree",
		connected: `typeof jupyterapp !== "undefined" && ` + labNotebook + `?.sessionContext?.session?.kernel?.connectionStatus === "connected"`,
		computes: `(() => {
			const kernel = ` + labNotebook + `.sessionContext.session.kernel;
			if (window.asked !== kernel) { // while it loads, the page may put another connection in the place of its first one
				const asked = kernel.requestExecute({code: "print(6*7)"});
				asked.onIOPub = (m) => { if (m.header.msg_type === "stream") window.answer = m.content.text; };
				window.asked = kernel;
			}
			return window.answer === "42\n";
		})()`,
		run:     `jupyterapp.shell.activateById(` + labNotebook + `.id); jupyterapp.commands.execute("notebook:run-all-cells"); true`,
		printed: labNotebook + `.content.model.cells.get(0).outputs.toJSON().map((o) => [].concat(o.text).join("")).join("")`,
	}
)

// pageOfNotebooks is the page that the lab's Jupyter has.
func pageOfNotebooks() notebookPage {
	if hasJupyterLab() {
		return labPage
	}
	return classicPage
}

// prepareNotebooks has JupyterLab's page answer our scripts.
func prepareNotebooks(l *laptop) {
	l.t.Helper()
	if _, err := l.lab.As("hpcuser", "sh", "-c", `mkdir -p .jupyter && echo 'c.LabApp.expose_app_in_browser = True' >.jupyter/jupyter_lab_config.py`); err != nil {
		l.t.Fatal(err)
	}
}

// openNotebook brings a session up, and shows a new notebook of it in a browser.
func openNotebook(l *laptop, cells ...string) (page notebookPage, b *tab, token string) {
	l.t.Helper()
	prepareNotebooks(l)
	l.run("up", "--no-open")
	base, token := l.page()
	l.t.Log(jupyterVersion(l.t, base, token))
	newNotebook(l.t, base, token, "across", cells)
	return pageOfNotebooks(), showNotebook(l.t, base, token, "across"), token
}

// showNotebook shows a notebook in a new browser.
func showNotebook(t *testing.T, base *url.URL, token, name string) *tab {
	t.Helper()
	b, page := openTab(t), pageOfNotebooks()
	b.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true})
	address := base.JoinPath(strings.ReplaceAll(page.path, "NAME", strings.ReplaceAll(name, ".", "-")), name+".ipynb").String() + "?token=" + token
	const connected = "the notebook's kernel is connected"
	if page == classicPage {
		b.untilLoaded(address, connected, page.connected)
	} else { // JupyterLab's page does not give up
		b.navigate(address)
		b.until(connected, page.connected)
	}
	return b
}

// newNotebook makes a notebook.
func newNotebook(t *testing.T, base *url.URL, token, name string, cells []string) {
	t.Helper()
	list := []any{}
	for i, code := range cells {
		list = append(list, map[string]any{
			"id": fmt.Sprintf("cell%d", i), "cell_type": "code", "source": code, "outputs": []any{}, "metadata": map[string]any{}, "execution_count": nil,
		})
	}
	text, err := json.Marshal(map[string]any{"type": "notebook", "content": map[string]any{
		"cells": list, "nbformat": 4, "nbformat_minor": 5,
		"metadata": map[string]any{"kernelspec": map[string]any{"name": "python3", "display_name": "Python 3"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base.JoinPath("api/contents", name+".ipynb").String(), bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+token)
	res, err := browser().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusOK {
		t.Fatalf("no notebook: %s", res.Status)
	}
}

func TestNotebookPageShowsEveryLineOfACell(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "browser")
	t.Parallel()
	const lines = 100
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i)
	}
	l := newLaptop(t, notebookConfig)
	page, tab, _ := openNotebook(l, fmt.Sprintf("import time\nfor i in range(%d):\n    print(i, flush=True)\n    time.sleep(0.2)\n", lines))
	if err := tab.evaluate(page.run, new(bool)); err != nil {
		t.Fatal(err)
	}
	tab.until("the cell prints", page.printed+`.startsWith("0\n")`)
	l.lab.Cut("wifi")
	l.until("reconnecting", is(api.SessionReconnecting))
	l.lab.Restore("wifi")
	l.lab.Roam()
	tab.until("the cell has ended", page.printed+fmt.Sprintf(`.endsWith("\n%d\n")`, lines-1))
	if got := tab.text(page.printed); got != want.String() {
		t.Errorf("the page shows %q", got)
	}
	l.run("down", "--cancel")
}
