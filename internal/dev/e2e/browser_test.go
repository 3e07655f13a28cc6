package e2e

import (
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
	l.run("up", "--no-open")
	base, token := l.page()
	page := newNotebook(t, base, token)
	tab := openTab(t)

	tab.untilLoaded(page+"?token="+token, "the notebook's kernel is connected", kernelConnected)
	at := tab.address()

	// A page that stays open gets its kernel back by itself.
	l.lab.Cut("silent")
	l.until("reconnecting", is(api.SessionReconnecting))
	l.lab.Restore("silent")
	repaired := time.Now()
	l.until("ready", is(api.SessionReady))
	t.Logf("ready %v after the link was back", time.Since(repaired).Round(time.Millisecond))
	tab.until("the kernel is connected again", kernelConnected)
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
	tab.until("the notebook is back", kernelConnected)
	t.Logf("the waiting page is the notebook %v after the link was back", time.Since(repaired).Round(time.Millisecond))
	if now := tab.address(); now != at {
		t.Errorf("the page was at %s and is at %s", at, now)
	}
	tab.until("the kernel computes", kernelComputes)
	tab.picture(artifact(t, "notebook-back.png"))
	l.run("down", "--cancel")
}

const (
	// kernelConnected asks the classic notebook for its websocket.
	kernelConnected = `typeof Jupyter !== "undefined" && !!Jupyter.notebook && !!Jupyter.notebook.kernel && Jupyter.notebook.kernel.is_connected()`
	kernelComputes  = `(() => {
		if (window.answer === undefined) {
			window.answer = null;
			Jupyter.notebook.kernel.execute("print(6*7)", {iopub: {output: (m) => { window.answer = m.content.text; }}});
		}
		return window.answer === "42\n";
	})()`
)

// newNotebook makes an empty notebook and returns the address of its page.
func newNotebook(t *testing.T, base *url.URL, token string) string {
	t.Helper()
	const empty = `{"type": "notebook", "content": {"cells": [], "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}}, "nbformat": 4, "nbformat_minor": 5}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base.JoinPath("api/contents/across.ipynb").String(), strings.NewReader(empty))
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
	return base.JoinPath("notebooks/across.ipynb").String()
}
