//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/chromium"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
)

// view is a dashboard in a headless browser, served by the built program.
type view struct {
	t       *testing.T
	ctx     context.Context
	l       *laptop
	dir     string
	address string // of the first page, "http://NAME.localhost:27123/"
	browser *chromium.Browser
	page    *chromium.Page
	opened  int // how many pages the program has opened
}

// openDashboard runs `tunctl dashboard`, whose browser is a script that notes each address,
// and opens what that got in a browser which takes evil.example for this computer.
func openDashboard(t *testing.T, l *laptop) *view {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience) // for all steps; the test's own ends before its cleanups
	t.Cleanup(cancel)
	v := &view{t: t, ctx: ctx, l: l, dir: t.TempDir()}
	for name, script := range map[string]string{
		"browser": "#!/bin/sh\necho \"$1\" >>'%[1]s/links'\n",
		"xclip":   "#!/bin/sh\ncat >'%[1]s/clipboard'\n",
		// A terminal window of the desktop: it runs what it is given in a terminal that the test has.
		"x-terminal-emulator": "#!/bin/sh\necho \"$@\" >>'%[1]s/windows'\n",
	} {
		if err := testprogram.Write(filepath.Join(v.dir, name), fmt.Appendf(nil, script, v.dir)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if v.browser, err = chromium.Start("--host-resolver-rules=MAP evil.example 127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.browser.Close(); err != nil {
			t.Error(err)
		}
	})
	v.page = v.openPage()
	v.must(v.page.Evaluate(ctx, `location.href`, &v.address))
	if strings.Contains(v.address, "#") {
		t.Errorf("the one-time value stays in the address: %s", v.address)
	}
	return v
}

// openPage runs `tunctl dashboard`, which ends once its page is in the browser.
func (v *view) openPage() *chromium.Page {
	v.t.Helper()
	cmd := v.l.commandIn(v.ctx, "dashboard")
	cmd.Env = append(slices.Clone(v.l.env), "BROWSER="+filepath.Join(v.dir, "browser"), "DISPLAY=:none", "PATH="+v.dir+":"+os.Getenv("PATH"))
	said := &bytes.Buffer{}
	cmd.Stderr = said
	v.must(cmd.Start())
	page := v.newTab(v.nextLink())
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "opened the dashboard") {
		v.t.Errorf("tunctl dashboard: %v\n%s", err, said)
	}
	v.must(page.Until(v.ctx, live))
	return page
}

// live says that the page has the agent's events.
const live = `document.getElementById("link")?.textContent === "Live"`

func (v *view) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Error(err)
		v.picture("dashboard-failed.png")
		v.t.FailNow()
	}
}

// nextLink waits until the program opens another page, and returns its one-time address.
func (v *view) nextLink() string {
	v.t.Helper()
	for {
		text, _ := os.ReadFile(filepath.Join(v.dir, "links")) // there is none before the first
		if links := strings.Fields(string(text)); len(links) > v.opened {
			v.opened++
			return links[v.opened-1]
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-v.ctx.Done():
			v.t.Fatal("no page was opened")
		}
	}
}

func (v *view) newTab(address string) *chromium.Page {
	v.t.Helper()
	page, err := v.browser.NewPage(v.ctx)
	v.must(err)
	v.must(page.Size(v.ctx, 1280, 900))
	v.must(page.Navigate(v.ctx, address))
	return page
}

func (v *view) until(condition string) {
	v.t.Helper()
	v.must(v.page.Until(v.ctx, condition))
}

// button is the button with this accessible name, visible or in a menu that is closed.
func button(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("button")].find((b) => (b.getAttribute("aria-label") ?? b.textContent) === %q && (b.checkVisibility() || b.closest("[popover]") && !b.hidden))`, name)
}

// click presses a button as soon as it is there.
func (v *view) click(name string) {
	v.t.Helper()
	v.until(button(name))
	v.must(v.page.Evaluate(v.ctx, button(name)+`.click()`, nil))
}

// shows waits until an element contains a text.
func (v *view) shows(selector, text string) {
	v.t.Helper()
	v.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.textContent.includes(%q))`, selector, text))
}

func (v *view) text(expression string) (text string) {
	v.t.Helper()
	v.must(v.page.Evaluate(v.ctx, expression, &text))
	return text
}

func (v *view) picture(name string) {
	if v.page == nil || !pictures && !v.t.Failed() {
		return
	}
	png, err := v.page.Picture(v.ctx)
	if err == nil {
		err = os.WriteFile(artifact(v.t, name), png, 0o644)
	}
	if err != nil {
		v.t.Error(err)
	}
}

// examine looks for barriers with axe-core, in light and in dark, where only the colours
// differ.
func (v *view) examine(what string) {
	v.t.Helper()
	for scheme, rules := range map[string][]string{"light": nil, "dark": {"color-contrast"}} {
		v.must(v.page.ColorScheme(v.ctx, scheme))
		barriers, err := v.page.Barriers(v.ctx, rules...)
		v.must(err)
		for _, barrier := range barriers {
			v.t.Errorf("%s, %s: %s", what, scheme, barrier)
		}
	}
	v.must(v.page.ColorScheme(v.ctx, "light"))
}

func TestEveryActionOfTheDashboardOnRealParts(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter", "browser")
	t.Parallel()
	l := newQuietLaptop(t, notebookNamed("on-the-dashboard"))
	v := openDashboard(t, l)
	v.shows("#rest .state", "Down")
	v.examine("before the start")
	v.tabsThrough("Skip to the content", "Overview", "Jobs", "Logs", "History", "Start jupyter", "More for jupyter")

	// Start with another choice, by the keyboard.
	v.must(v.page.Press(v.ctx, "Enter"))
	v.tabsThrough("Start with other choices: jupyter")
	v.must(v.page.Press(v.ctx, "Enter"))
	v.until(`document.getElementById("dialog").open`)
	v.examine("the dialog of choices")
	v.picture("dashboard-choices.png")
	v.must(v.page.Evaluate(v.ctx, `[...document.querySelectorAll("#dialog-fields label")].find((l) => l.textContent.toLowerCase().includes("hour")).querySelector("input, select").value = "1"`, nil))
	v.must(v.page.Press(v.ctx, "Enter"))
	v.shows("#cards .state", "Ready")
	s := l.status()
	if s.With["hours"] != "1" {
		t.Errorf("the session was started with %v", s.With)
	}
	v.shows("#cards .about", s.Job.Node)
	v.shows("#cards .bar .text", "left, ends")
	v.must(v.page.Evaluate(v.ctx, `document.querySelectorAll("details").forEach((d) => { d.open = true; })`, nil))
	v.shows("#hosts dd", "key")
	v.shows("#cards .spark figcaption", "CPU")
	v.examine("a ready session")
	for name, size := range map[string][2]int{"light": {1280, 900}, "narrow": {360, 760}, "wide": {3840, 2160}} {
		v.must(v.page.Size(v.ctx, size[0], size[1]))
		v.picture("dashboard-" + name + ".png")
		if overflow := v.text(`String(document.documentElement.scrollWidth - innerWidth)`); !strings.HasPrefix(overflow, "-") && overflow != "0" {
			t.Errorf("%s: the page is %s pixels wider than the window", name, overflow)
		}
	}
	v.must(v.page.Size(v.ctx, 1280, 900))
	v.must(v.page.ColorScheme(v.ctx, "dark"))
	v.picture("dashboard-dark.png")
	v.showsWhatTheLabLacks()

	// Open and copy: the token is on the program's side only.
	_, token := l.page()
	v.click("Open jupyter")
	notebook := v.newTab(v.nextLink())
	v.must(notebook.Until(v.ctx, `document.readyState === "complete" && (document.title.includes("Home") || document.title.includes("Jupyter"))`))
	v.must(v.page.Front(v.ctx))
	v.shows("[data-session=jupyter] .result", "Opened jupyter")
	v.click("Copy address of jupyter")
	v.shows("[data-session=jupyter] .result", "Copied the address of jupyter")
	copied, err := os.ReadFile(filepath.Join(v.dir, "clipboard"))
	if err != nil || !strings.Contains(string(copied), token) {
		t.Errorf("copied is %q, %v", copied, err)
	}
	v.refusesTheNotebook(notebook)
	v.refusesARebindingName()
	v.must(v.page.Front(v.ctx))

	// The log, live and without its token.
	v.click("Show the log of jupyter")
	v.shows("#log", "JupyterLab will listen on")
	v.shows("#log", "token=•••")
	v.must(v.page.Evaluate(v.ctx, `(() => { const s = document.getElementById("log-search"); s.value = "listen ON"; s.dispatchEvent(new Event("input")); })()`, nil))
	v.shows("#log mark", "listen on")
	v.shows("#log-status", " lines match")
	v.examine("the log")
	v.picture("dashboard-log.png")
	if all := v.text(`document.documentElement.outerHTML + JSON.stringify({...sessionStorage, ...localStorage}) + document.cookie`); strings.Contains(all, token) {
		t.Error("the page has the notebook's token")
	}
	v.hidesBehind(notebook)

	// Slurm refuses more time, and the page says so.
	v.must(v.page.Evaluate(v.ctx, `location.hash = "overview"`, nil))
	v.click("Extend jupyter")
	v.examine("the dialog of an extension")
	v.click("Ask the scheduler")
	v.shows("[data-session=jupyter] .result", "Could not extend job "+s.Job.ID)
	v.examine("an error")

	v.click("Disconnect jupyter")
	v.shows("#cards .state", "Disconnected")
	v.click("Reconnect jupyter")
	v.shows("#cards .state", "Ready")
	if again := l.status(); again.Job.ID != s.Job.ID {
		t.Errorf("job %s became job %s", s.Job.ID, again.Job.ID)
	}

	// Nothing ends without a yes.
	v.click("End the job of jupyter")
	v.shows("#dialog", "Work that is not saved is lost")
	v.examine("the question before the end")
	v.must(v.page.Press(v.ctx, "Escape"))
	v.until(`!document.getElementById("dialog").open`)
	if s := l.status(); s.State != api.SessionReady {
		t.Errorf("after Escape the session is %s", s.State)
	}
	v.click("End the job of jupyter")
	v.click("End the job")
	v.shows("#rest .state", "Down")
	l.lab.WaitJob(s.Job.ID, "CANCELLED", "")

	v.must(v.page.Evaluate(v.ctx, `location.hash = "history"`, nil))
	v.shows("#runs", "job "+s.Job.ID)
	v.shows("#runs", "Cancelled")
	v.examine("the history")
	v.picture("dashboard-history.png")
	if problems := v.page.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %q", problems)
	}
}

// showsWhatTheLabLacks gives the page what a site with GPUs, quotas and certificates tells.
// Until it has been looked at, the page gets no figures of the lab, which would replace it.
func (v *view) showsWhatTheLabLacks() {
	v.t.Helper()
	v.must(v.page.Evaluate(v.ctx, `(() => {
		window.answered = window.fetch;
		window.fetch = () => new Promise(() => {});
		document.dispatchEvent(new Event("visibilitychange")); // which begins another stream of events
	})()`, nil))
	v.must(v.page.Evaluate(v.ctx, `import("/model.js").then(({ model, apply, changed }) => {
		const now = Date.now(), at = (minutes) => new Date(now + 60000 * minutes).toISOString();
		for (let m = -60; m <= 0; m++) {
			apply({ type: "usage", usage: { session: "jupyter", time: at(m), source: "step", cpu: 40 + 20 * Math.sin(m / 5), cpus: 8, memory: 21e9, memoryLimit: 32e9,
				gpus: [{ name: "A100", percent: 95, memory: 30e9, memoryTotal: 40e9 }, { name: "A100", percent: 65 + m / 2, memory: 1e9, memoryTotal: 40e9 }],
				bytesIn: 1e6 * (60 + m), bytesOut: 2e6 * (60 + m) * (60 + m), idleSince: at(-12) } });
		}
		model.balances = [{ host: "lab-login", at: at(-20), balances: [{ name: "def-alice", used: 1234.5, total: 2000, unit: "GPU-hours" }, { name: "/home", used: 48.7, total: 50, unit: "GB" }, { name: "/scratch", used: 1200, unit: "files" }] }];
		apply({ type: "host", host: { ...model.hosts.get("lab-login"), certificateEnds: at(95), channels: 3, maxChannels: 8 } });
	})`, nil))
	v.shows("#cards .spark figcaption", "80 %, 95 · 65")
	v.shows("#cards .spark figcaption", "% of 8")
	v.shows("#cards dl", "30 GB of 40 GB · 1.0 GB of 40 GB")
	v.shows("#cards dl", ", for 12 min")
	v.shows("#hosts", "3 of 8 SSH sessions in use")
	v.shows("#hosts", "in 1 h 35 min")
	v.shows("#hosts .attention", "/home: 48.7 of 50 GB used")
	v.shows("#hosts", "/scratch: 1,200 files used")
	v.examine("GPUs, balances and a certificate")
	v.shows("#cards .spark figcaption", "80 %, 95 · 65")
	v.picture("dashboard-gpus.png")
	v.must(v.page.Evaluate(v.ctx, `(() => {
		window.fetch = window.answered;
		document.dispatchEvent(new Event("visibilitychange"));
	})()`, nil))
	v.until(`![...document.querySelectorAll("#cards .spark figcaption")].some((e) => e.checkVisibility() && e.textContent.includes("GPU"))`)
}

// tabsThrough presses Tab, and expects the focus on elements with these names.
func (v *view) tabsThrough(names ...string) {
	v.t.Helper()
	for _, want := range names {
		v.must(v.page.Press(v.ctx, "Tab"))
		if got := v.text(`document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent`); got != want {
			v.t.Errorf("Tab goes to %q, want %q", got, want)
		}
	}
}

// refusesTheNotebook has a page on another port of this computer ask for data.
func (v *view) refusesTheNotebook(notebook *chromium.Page) {
	v.t.Helper()
	for _, path := range []string{"api/jobs", "api/events", "app.js"} {
		var answer string
		v.must(notebook.Evaluate(v.ctx, fmt.Sprintf(`fetch(%q).then((r) => "read " + r.status, () => "refused")`, v.address+path), &answer))
		if answer != "refused" {
			v.t.Errorf("a notebook's page may read %s: %s", path, answer)
		}
	}
	var framed bool
	v.must(notebook.Evaluate(v.ctx, fmt.Sprintf(`new Promise((done) => {
		const f = document.createElement("iframe");
		f.onload = () => { let inside = null; try { inside = f.contentDocument; } catch {} done(!!inside && inside.title.includes("tunctl")); };
		f.src = %q;
		document.body.append(f);
	})`, v.address), &framed))
	if framed {
		v.t.Error("a notebook's page may put the dashboard in a frame")
	}
}

// reboundAddress is the dashboard's port by a foreign name.
func reboundAddress(address string) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
	return "http://evil.example:" + port
}

// refusesARebindingName loads the dashboard by a foreign name that leads to this computer.
func (v *view) refusesARebindingName() {
	v.t.Helper()
	rebound := v.newTab(reboundAddress(v.address))
	var text string
	v.must(rebound.Until(v.ctx, `document.readyState === "complete"`))
	v.must(rebound.Evaluate(v.ctx, `document.body.innerText`, &text))
	var refusal api.Error
	if json.Unmarshal([]byte(text), &refusal) != nil || !strings.Contains(refusal.Message, "wrong host name") {
		v.t.Errorf("a rebinding name gets %.200q", text)
	}
}

// hidesBehind puts another tab before the page, which then must not make the agent measure.
func (v *view) hidesBehind(other *chromium.Page) {
	v.t.Helper()
	v.must(v.page.Evaluate(v.ctx, `(() => {
		const send = window.fetch;
		window.requested = [];
		window.fetch = (path, options) => { window.requested.push(path); return send(path, options); };
	})()`, nil))
	v.must(other.Front(v.ctx))
	v.until(`window.requested.includes("/api/events")`)
	if got := v.text(`window.requested.join(" ")`); got != "/api/events" {
		v.t.Errorf("a hidden page requests %s", got)
	}
	v.must(v.page.Front(v.ctx))
	v.until(`window.requested.includes("/api/events?usage=1")`)
}

func TestADashboardThatIsDeadLooksDead(t *testing.T) {
	real.Need(t, "ssh", "slurm", "browser")
	t.Parallel()
	v := openDashboard(t, newQuietLaptop(t, notebookConfig))
	used := v.newTab(v.address) // in a tab of its own, as the user types it
	v.must(used.Until(v.ctx, `document.body.textContent.includes("This page needs a new address")`))
	v.must(v.page.Front(v.ctx))
	v.must(v.page.Evaluate(v.ctx, `window.before = true; location.reload()`, nil))
	v.until(`!window.before && ` + live)

	v.l.run("agent", "stop")
	v.shows("#needs", "has stopped")
	v.shows("#link", "Stopped, last known ")
	v.until(`document.querySelector("[aria-label='Start jupyter']").matches(":disabled")`)
	v.examine("a dead page")
	v.shows("#needs", "The dashboard has stopped") // its server ends after the agent
	v.openPage()                                   // by another server: the first page stays as it is
	v.must(v.page.Front(v.ctx))
	v.shows("#needs", "The dashboard has stopped")
	v.must(v.page.Evaluate(v.ctx, `location.reload()`, nil))
	v.shows("h1", "This page needs a new address")
	v.examine("the locked page")
	if problems := v.page.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %q", problems)
	}
}

func TestALoginOnTheDashboardIsAskedInATerminalWindow(t *testing.T) {
	real.Need(t, "ssh", "slurm", "browser")
	t.Parallel()
	l := newQuietLaptop(t, "[session.jupyter]\nhost = \"lab-pass\"\nforward = [\"PORT:login1:22\"]\n")
	v := openDashboard(t, l)
	v.click("Start jupyter")
	v.shows("#cards .state", "Login needed")
	v.examine("a login")
	v.picture("dashboard-login.png")
	v.click("Log in to lab-pass")
	v.shows("#toast .result", "terminal window")
	wait.Until(t, "the window runs the login", func() bool { // it is not waited for
		window, _ := os.ReadFile(filepath.Join(v.dir, "windows"))
		return strings.HasSuffix(strings.TrimSpace(string(window)), "login lab-pass")
	})
	k := ptytest.Start(t, l.commandIn(v.ctx, "login", "lab-pass")) // as the window does
	k.Expect("lab-pass")
	k.AnswerHidden(real.Password)
	v.shows("#cards .state", "Ready")
	k.Expect("Make a key so that tunctl can reconnect automatically? [y/N]")
	k.Answer("n")
	k.WantEnd(0)
	v.click("Log out of lab-pass")
	v.shows("#cards .state", "Login needed")
	if all := v.text(`document.documentElement.outerHTML`); strings.Contains(all, real.Password) {
		t.Error("the page has the password")
	}
	if problems := v.page.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %q", problems)
	}
}
