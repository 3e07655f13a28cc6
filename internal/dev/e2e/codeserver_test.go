package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// TestARealCodeServerIsEditedInThroughACut logs in to a code-server in a job, saves a file, uses its
// terminal, and goes on with both while the connection is lost.
func TestARealCodeServerIsEditedInThroughACut(t *testing.T) {
	dir := os.Getenv("TUNCTL_CODE_SERVER")
	if dir == "" {
		t.Skip("`make code-server` installs one, and runs this")
	}
	real.Need(t, "ssh", "slurm", "browser")
	config := strings.Replace(appConfig("code-server", ""), "--mem=800M", "--mem=3G", 1)
	l := newLaptop(t, config+fmt.Sprintf("prepare = 'PATH=%[1]s/node/bin:%[1]s/node_modules/.bin:$PATH'\n", dir))
	l.write("notes.txt", "end")
	l.write(".local/share/code-server/User/settings.json", `{"security.workspace.trust.enabled": false, "workbench.startupEditor": "none", "files.autoSave": "off"}`)
	out, talk := l.run("up", "--no-open")
	t.Logf("what a person sees:\n%s%s", talk, out)
	s := l.status()
	_, talk = l.run("open", "--print", "jupyter")
	password := regexp.MustCompile(`[0-9a-f]{48}`).FindString(talk)
	l.secretIsPrivate(s.Job.ID, password)

	e := &codeServer{openTab(t)}
	e.logIn(strings.TrimSpace(out), password)
	e.openFile("notes.txt")
	e.edit("one ")
	l.untilFile("notes.txt", "one end")
	e.terminal(`x=kept; hostname >node.txt`)
	l.untilFile("node.txt", s.Job.Node)

	e.press("1") // back to the editor
	e.until("the editor has the cursor", `document.activeElement.closest(".monaco-editor")`)
	l.lab.Cut("silent")
	l.until("reconnecting", is(api.SessionReconnecting))
	e.edit("two ")
	l.lab.Restore("silent")
	repaired := time.Now()
	l.untilFile("notes.txt", "one two end")
	t.Logf("what was saved while there was no connection is in the file %v after that was back", time.Since(repaired).Round(time.Millisecond))
	e.terminal(`echo "$x" >shell.txt`)
	l.untilFile("shell.txt", "kept")
	e.until("the page knows that the file is saved, and does not ask to be loaded again", `!document.querySelector(".tab.dirty, .monaco-dialog-box")`)
	e.picture(artifact(t, "code-server.png"))
	l.endsCleanly(s)
}

// codeServer is a tab with code-server's page.
type codeServer struct{ *tab }

// until waits until an element is found, or a condition holds.
func (e *codeServer) until(what, condition string) {
	e.t.Helper()
	e.tab.until(what, condition)
}

func (e *codeServer) logIn(address, password string) {
	e.t.Helper()
	e.navigate(address)
	e.until("it asks for a password", `document.querySelector("input[name=password]")`)
	if err := e.evaluate(fmt.Sprintf(`document.querySelector("input[name=password]").value = %q; document.querySelector("form").submit()`, password), nil); err != nil {
		e.t.Fatal(err)
	}
	e.until("the workbench is drawn", `document.querySelector(".monaco-workbench .explorer-folders-view .monaco-list-row")`)
}

func (e *codeServer) openFile(name string) {
	e.t.Helper()
	e.press("p")
	e.until("it asks for a file", `document.activeElement.closest(".quick-input-widget")`)
	e.write(name)
	e.until("it has found the file", fmt.Sprintf(`document.querySelector(".quick-input-list .monaco-list-row.focused")?.textContent.includes(%q)`, name))
	e.enter()
	e.until("the file is open", fmt.Sprintf(`document.querySelector(".tab.active")?.textContent.includes(%q) && document.activeElement.closest(".monaco-editor")`, name))
	e.until("the file is shown", `document.querySelector(".view-line")?.textContent`)
}

// edit writes a word into the file at the cursor, and saves it.
func (e *codeServer) edit(word string) {
	e.t.Helper()
	e.write(word)
	e.until("the word is in the file", fmt.Sprintf(`document.querySelector(".view-line").textContent.includes(%q)`, strings.TrimSpace(word)))
	e.press("s")
}

// terminal runs a command in the terminal, which it opens or returns to.
func (e *codeServer) terminal(command string) {
	e.t.Helper()
	e.press("`")
	e.until("the terminal has the cursor", `document.activeElement.classList.contains("xterm-helper-textarea") && document.querySelector(".xterm-rows, .xterm-screen")`)
	e.write(command)
	e.enter()
}

func (e *codeServer) write(text string) {
	e.t.Helper()
	for _, c := range text {
		e.call("Input.dispatchKeyEvent", map[string]any{"type": "char", "text": string(c)})
	}
}

// press presses a key together with Ctrl.
func (e *codeServer) press(key string) {
	e.t.Helper()
	code, number := "Key"+strings.ToUpper(key), int(strings.ToUpper(key)[0])
	switch key {
	case "`":
		code, number = "Backquote", 192
	case "1":
		code = "Digit1"
	}
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		e.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "modifiers": 2, "key": key, "code": code, "windowsVirtualKeyCode": number})
	}
}

func (e *codeServer) enter() {
	e.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		e.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
	}
}

// untilFile waits until a file in the home folder on the cluster has a text.
func (l *laptop) untilFile(path, want string) {
	l.t.Helper()
	var got string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pause(l.t, 100*time.Millisecond) {
		got, _ = l.lab.As("hpcuser", "cat", path)
		if strings.TrimSpace(got) == want {
			return
		}
	}
	l.t.Fatalf("%s has %q, not %q", path, got, want)
}
