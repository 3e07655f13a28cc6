//go:build linux

package tray

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"tunctl/internal/api"
	"tunctl/internal/dev/bustest"
	"tunctl/internal/dev/must"
	"tunctl/internal/dev/wait"
)

// patience is how long a test waits for another process, at most.
const patience = wait.Limit

// process is a tray at work.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string // what it says, closed at its end
}

// startTray runs the tray on the bus at address.
func startTray(t *testing.T, address, instance string) *process {
	t.Helper()
	self, err := os.Executable()
	must.Do(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "TUNCTL_TEST_TRAY="+instance, "DBUS_SESSION_BUS_ADDRESS="+address,
		"GORACE=atexit_sleep_ms=0 exitcode=0 log_path="+filepath.Join(t.TempDir(), "races") /* of the library with itself */, "XDG_RUNTIME_DIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.Do(t, err)
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	p := &process{t: t, cmd: cmd, in: in, lines: make(chan string, 256)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return p
}

// send plays a status of the agent.
func (p *process) send(v view) {
	p.t.Helper()
	line, err := json.Marshal(api.Event{Type: api.EventStatus, Status: &v.Status})
	must.Do(p.t, err)
	if _, err := fmt.Fprintf(p.in, "%s\n", line); err != nil {
		p.t.Fatal(err)
	}
}

// hears waits for the next line that begins with prefix.
func (p *process) hears(prefix string) string {
	p.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the tray ended and never said %q", prefix)
			}
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-limit:
			p.t.Fatalf("the tray never said %q", prefix)
		}
	}
}

// hearsAll waits for lines that begin with each of the prefixes, in any order.
func (p *process) hearsAll(prefixes ...string) {
	p.t.Helper()
	for len(prefixes) > 0 {
		line := p.hears("")
		prefixes = slices.DeleteFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
	}
}

// ends waits for the end of the process, and returns its exit code and last line.
func (p *process) ends() (code int, last string) {
	p.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				last = line
				continue
			}
			_ = p.cmd.Wait()
			return p.cmd.ProcessState.ExitCode(), last
		case <-limit:
			p.t.Fatal("the tray does not end")
		}
	}
}

// watcher stands in for a desktop's panel: it keeps the tray icons.
type watcher struct {
	t     *testing.T
	conn  *dbus.Conn
	items chan string // bus names of icons that registered
}

// RegisterStatusNotifierItem is what an icon calls.
func (w *watcher) RegisterStatusNotifierItem(_ string, sender dbus.Sender) *dbus.Error {
	w.items <- string(sender)
	return nil
}

func newWatcher(t *testing.T, bus *bustest.Bus) *watcher {
	t.Helper()
	w := &watcher{t: t, conn: bus.Connect(t), items: make(chan string, 16)}
	must.Do(t, w.conn.Export(w, watcherPath, watcherName))
	if _, err := prop.Export(w.conn, watcherPath, prop.Map{watcherName: {
		"IsStatusNotifierHostRegistered": {Value: true},
	}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// startWithIcon runs a tray, and waits for its icon on the panel.
func startWithIcon(t *testing.T) (*watcher, *process, string) {
	t.Helper()
	bus := bustest.Start(t)
	w := newWatcher(t, bus)
	w.come()
	p := startTray(t, bus.Address, "a")
	return w, p, w.icon()
}

// come and leave are a panel's start and end.
func (w *watcher) come() {
	w.t.Helper()
	if _, err := w.conn.RequestName(watcherName, dbus.NameFlagDoNotQueue); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watcher) leave() {
	w.t.Helper()
	if _, err := w.conn.ReleaseName(watcherName); err != nil {
		w.t.Fatal(err)
	}
}

// icon waits for an icon to register.
func (w *watcher) icon() string {
	w.t.Helper()
	return wait.For(w.t, "an icon comes", w.items)
}

// layout is com.canonical.dbusmenu's form of an entry.
type layout struct {
	ID         int32
	Properties map[string]dbus.Variant
	Children   []dbus.Variant
}

// entries reads an icon's menu: its labels, indented, and the ids behind them.
func (w *watcher) entries(icon string) (text string, ids map[string]int32) {
	w.t.Helper()
	menu := w.conn.Object(icon, "/StatusNotifierItem/menu")
	var revision uint32
	var root layout
	for range 2 { // the library's first answer is one level deep
		must.Do(w.t, menu.Call("com.canonical.dbusmenu.GetLayout", 0, int32(0), int32(-1), []string{}).Store(&revision, &root))
	}
	var b strings.Builder
	ids = map[string]int32{}
	var walk func(l layout, path, indent string)
	walk = func(l layout, path, indent string) {
		for _, v := range l.Children {
			var child layout
			must.Do(w.t, dbus.Store([]any{v.Value()}, &child))
			label, _ := child.Properties["label"].Value().(string)
			if visible, ok := child.Properties["visible"].Value().(bool); ok && !visible {
				label += " (hidden)"
			}
			state := ""
			if on, ok := child.Properties["enabled"].Value().(bool); ok && !on {
				state = " (off)"
			}
			fmt.Fprintf(&b, "%s%s%s\n", indent, label, state)
			ids[path+label] = child.ID
			walk(child, path+label+"/", indent+"  ")
		}
	}
	walk(root, "", "")
	return b.String(), ids
}

// awaitEntry reads the menu until it has an entry.
func (w *watcher) awaitEntry(icon, entry string) map[string]int32 {
	w.t.Helper()
	limit := time.Now().Add(patience)
	for {
		text, ids := w.entries(icon)
		if _, ok := ids[entry]; ok {
			return ids
		}
		if time.Now().After(limit) {
			w.t.Fatalf("no entry %q in\n%s", entry, text)
		}
		time.Sleep(10 * time.Millisecond) // signals of changes are coalesced: ask again
	}
}

// awaitDeep reads the menu again until its submenus are in it: after each change of
// shape the library's next answer is one level deep.
func (w *watcher) awaitDeep(icon string, ids map[string]int32) map[string]int32 {
	w.t.Helper()
	wait.Until(w.t, "the menu has submenus", func() bool {
		for label := range ids {
			if strings.Contains(label, "/") {
				return true
			}
		}
		_, ids = w.entries(icon)
		return false
	})
	return ids
}

// click presses an entry.
func (w *watcher) click(icon string, id int32) {
	w.t.Helper()
	err := w.conn.Object(icon, "/StatusNotifierItem/menu").Call("com.canonical.dbusmenu.Event", 0,
		id, "clicked", dbus.MakeVariant(int32(0)), uint32(0)).Err
	must.Do(w.t, err)
}

func TestPanelEntries(t *testing.T) {
	w, p, icon := startWithIcon(t)
	p.send(statuses["ready"])

	ids := w.awaitDeep(icon, w.awaitEntry(icon, "Quit (jupyter stays connected)")) // the last one drawn
	session := ""
	for label := range ids {
		if before, ok := strings.CutSuffix(label, "/Open"); ok {
			session = before
		}
	}
	whole := "http://localhost:8888/jupyter?token=s3cr3t"
	for _, c := range []struct{ entry, want string }{
		{"Open jupyter", "browse " + whole},
		{session + "/Open", "browse " + whole},
		{session + "/Copy address", "copy " + whole},
		{session + "/Show log", "terminal logs -f jupyter"},
		{session + "/Start (hidden)", "up jupyter"},
		{session + "/Disconnect (the job keeps running, charged)", "down jupyter"},
		{session + "/End the job…/Yes, end job 4242 (unsaved work is lost)", "cancel jupyter"},
		{"narval: connected/Log in… (hidden)", "login narval"},
		{"narval: connected/Log out", "logout narval"},
		{"Dashboard", "dashboard"},
		{"Edit config…", "edit "},
		{"Help", "show "},
	} {
		id, ok := ids[c.entry]
		if !ok {
			text, _ := w.entries(icon)
			t.Fatalf("no entry %q in\n%s", c.entry, text)
		}
		w.click(icon, id)
		p.hears(c.want)
	}
	p.send(statuses["reconnecting"])
	ids = w.awaitEntry(icon, "narval: waiting: no network/Try now")
	w.awaitEntry(icon, "jupyter: reconnecting to narval/Open (hidden)")
	w.click(icon, ids["Quit (jupyter stays connected)"])
	if code, last := p.ends(); code != 0 {
		t.Errorf("after Quit the tray ended with %d: %s", code, last)
	}
}

func TestPanelClicksUnderLoad(t *testing.T) {
	const sessions = 25
	w, p, icon := startWithIcon(t)
	many := func(left time.Duration) view {
		v := reached(nil)
		end := func(j *api.Job) { j.End = time.Now().Add(left) } // the tray's clock is the real one
		for i := range sessions {
			v.Status.Sessions = append(v.Status.Sessions, session(fmt.Sprint("s", i), api.SessionReady, job(end)))
		}
		return v
	}
	p.send(many(30 * time.Minute))
	ids := w.awaitDeep(icon, w.awaitEntry(icon, fmt.Sprintf("Quit (%d sessions stay connected)", sessions)))
	var want []string
	for label, id := range ids {
		if !strings.HasSuffix(label, "/Disconnect (the job keeps running, charged)") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(label, "Other sessions/"), ":")
		want = append(want, "down "+name)
		p.send(many(time.Duration(len(want))*time.Hour + 30*time.Minute + 25*time.Second)) // all titles change meanwhile
		w.click(icon, id)
	}
	if len(want) != sessions {
		t.Fatalf("the menu has %d sessions, want %d", len(want), sessions)
	}
	p.hearsAll(want...)
	wait.Until(t, "the last titles are shown", func() bool { // which have half an hour for that
		text, _ := w.entries(icon)
		return strings.Contains(text, "s0: ready, 1 d 1 h ")
	})
}

func TestPanelChangesOfShape(t *testing.T) {
	w, p, icon := startWithIcon(t)
	for i := range 30 {
		v := reached(narval(api.HostUp, ""))
		for k := range i % 4 {
			v.Status.Sessions = append(v.Status.Sessions, session(fmt.Sprint("s", k), api.SessionReady, page))
		}
		p.send(v)
		_, ids := w.entries(icon)
		for _, id := range ids { // some are gone by the time they are clicked
			if id != ids["Quit"] {
				_ = w.conn.Object(icon, "/StatusNotifierItem/menu").Call("com.canonical.dbusmenu.Event", dbus.FlagNoReplyExpected,
					id, "opened", dbus.MakeVariant(int32(0)), uint32(0))
			}
		}
		if id, ok := ids["Help"]; ok {
			w.click(icon, id)
		}
	}
	p.send(statuses["down"])
	w.awaitEntry(icon, "narval: not connected")
	ids := w.awaitEntry(icon, "Quit")
	w.click(icon, ids["Help"])
	p.hears("show ")
}

func TestPanelRestarts(t *testing.T) {
	bus := bustest.Start(t)
	w := newWatcher(t, bus)
	p := startTray(t, bus.Address, "a")
	if told := p.hears("tell"); !strings.Contains(told, "AppIndicator") {
		t.Errorf("without a panel it said %q, want what to do", told)
	}
	for range 10 {
		w.come()
		icon := w.icon()
		p.send(statuses["ready"])
		w.awaitEntry(icon, "Open jupyter")
		w.leave()
	}
	must.Do(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if code, last := p.ends(); code != 0 {
		t.Errorf("told to end, it ended with %d: %s", code, last)
	}
}

func TestPanelDyingBus(t *testing.T) {
	for _, shown := range []bool{true, false} {
		t.Run(fmt.Sprintf("icon shown %v", shown), func(t *testing.T) {
			bus := bustest.Start(t)
			w := newWatcher(t, bus)
			p := startTray(t, bus.Address, "a")
			if shown {
				w.come()
				w.awaitEntry(w.icon(), "Help")
			} else {
				p.hears("tell")
			}
			bus.Stop()
			_, _ = fmt.Fprintln(p.in, `{"type":"status","status":{"hosts":[],"sessions":[]}}`) // something to draw on a dead bus
			if code, last := p.ends(); code != 1 || !strings.Contains(last, errDesktopGone.Error()) {
				t.Errorf("it ended with %d: %s, want 1 and that the session ended", code, last)
			}
		})
	}
}

func TestPanelContextEnd(t *testing.T) {
	bus := bustest.Start(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", bus.Address)
	for i := range 20 { // the bus's end and the context's are seen in either order
		ctx, cancel := context.WithCancel(t.Context())
		s, err := acquireInstance(ctx, fmt.Sprint("a", i))
		must.Do(t, err)
		told := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- newPanel(slog.New(slog.DiscardHandler)).Serve(ctx, s, func(string) { close(told) })
		}()
		<-told // it waits for a panel
		cancel()
		if err := <-done; err != nil {
			t.Fatalf("it ended with %q", err)
		}
		s.release()
	}
}

func TestInstanceWithoutBus(t *testing.T) {
	p := startTray(t, "unix:path="+filepath.Join(t.TempDir(), "none"), "a")
	if code, last := p.ends(); code != 1 || !strings.Contains(last, "no desktop session") {
		t.Errorf("it ended with %d: %s", code, last)
	}
}

func TestInstanceIsOne(t *testing.T) {
	bus := bustest.Start(t)
	w := newWatcher(t, bus)
	w.come()
	startTray(t, bus.Address, "a")
	w.icon()
	second := startTray(t, bus.Address, "a")
	if code, last := second.ends(); code != 0 || !strings.Contains(last, "already running") {
		t.Errorf("the second ended with %d: %s", code, last)
	}
	startTray(t, bus.Address, "another home")
	w.icon()
}
