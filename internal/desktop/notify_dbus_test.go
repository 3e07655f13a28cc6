//go:build linux || freebsd || netbsd || openbsd || dragonfly

package desktop

import (
	"context"
	"errors"
	"image"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"tunctl/internal/dev/bustest"
	"tunctl/internal/dev/must"
	"tunctl/internal/dev/wait"
)

// shownNote is what a stand-in notification service was asked to show.
type shownNote struct {
	title, body string
	actions     []string
	urgency     byte
	replaces    uint32
	icon        dbus.Variant
}

// notificationService stands in for the desktop's.
type notificationService struct {
	conn   *dbus.Conn
	able   []string
	shown  chan shownNote
	closed chan uint32
	last   uint32 // id of a new note
}

func (s *notificationService) GetCapabilities() ([]string, *dbus.Error) { return s.able, nil }

func (s *notificationService) Notify(_ string, replaces uint32, _, title, body string, actions []string,
	hints map[string]dbus.Variant, _ int32,
) (uint32, *dbus.Error) {
	s.shown <- shownNote{title, body, actions, hints["urgency"].Value().(byte), replaces, hints["image-data"]}
	if replaces == 0 {
		s.last++
		replaces = s.last
	}
	return replaces, nil
}

func (s *notificationService) CloseNotification(id uint32) *dbus.Error {
	s.closed <- id
	return nil
}

// startService starts a service that is able to do some things, and a notifier that uses it.
func startService(t *testing.T, able ...string) (*notificationService, *Notifier) {
	t.Helper()
	bus := bustest.Start(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", bus.Address)
	conn := bus.Connect(t)
	s := &notificationService{conn: conn, able: able, shown: make(chan shownNote, 2), closed: make(chan uint32, 1), last: 6}
	must.Do(t, conn.Export(s, notifyPath, notifyName))
	if _, err := conn.RequestName(notifyName, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return s, newNotifier(t)
}

func newNotifier(t *testing.T) *Notifier {
	t.Helper()
	n, err := NewNotifier(t.Context())
	must.Do(t, err)
	t.Cleanup(n.Close)
	return n
}

func TestNotifierButton(t *testing.T) {
	service, n := startService(t, "actions", "body", "body-markup")
	for _, pressed := range []int{0, 2, 4} { // the note itself, its first button, its second
		done := make(chan string, 1)
		note := Note{Title: "jupyter is ready", Body: "a < b", Urgent: true, Icon: image.NewNRGBA(image.Rect(0, 0, 48, 48)), Actions: []Action{
			{"Open", func() { done <- "open" }},
			{"Log", func() { done <- "log" }},
		}}
		must.Do(t, n.Notify(t.Context(), note))
		got := <-service.shown
		if got.title != note.Title || got.body != "a &lt; b" || got.urgency != 2 || len(got.actions) != 6 || !showsIcon(got.icon) {
			t.Fatalf("the desktop was asked to show %q: %q, with %q", got.title, got.body, got.actions)
		}
		must.Do(t, service.conn.Emit(notifyPath, notifyName+".ActionInvoked", uint32(7), got.actions[pressed]))
		want := map[int]string{0: "open", 2: "open", 4: "log"}[pressed]
		if chosen := wait.For(t, "the button does something", done); chosen != want {
			t.Errorf("action %d did %q, want %q", pressed/2, chosen, want)
		}
	}
}

// showsIcon reports whether a hint has a picture: its size, its format and its pixels.
func showsIcon(hint dbus.Variant) bool {
	parts, _ := hint.Value().([]any)
	if len(parts) != 7 {
		return false
	}
	data, _ := parts[6].([]byte)
	return parts[0] == int32(48) && len(data) == 4*48*48
}

func TestNotifierLabels(t *testing.T) {
	service, n := startService(t, "actions")
	must.Do(t, n.Notify(t.Context(), Note{Title: "jupyter has ended", Actions: []Action{{"Show log", func() {}}}}))
	labels := map[string]int{}
	for i, text := range (<-service.shown).actions {
		if i%2 == 1 && text != "" {
			labels[text]++
		}
	}
	if len(labels) != 1 || labels["Show log"] != 1 {
		t.Errorf("a desktop that shows every action with a label has the buttons %v", labels)
	}
}

func TestNotifierReplace(t *testing.T) {
	service, n := startService(t, "actions")
	for _, actions := range [][]Action{{{"Open", func() {}}}, {{"Open", func() {}}}, nil} {
		must.Do(t, n.Notify(t.Context(), Note{Tag: "ready:jupyter", Title: "x", Actions: actions}))
		<-service.shown
		if len(n.shown) != 1 {
			t.Errorf("with %d actions, %d notes are kept", len(actions), len(n.shown))
		}
	}
}

func TestNotifierOfAnother(t *testing.T) {
	service, first := startService(t, "actions")
	second := newNotifier(t)
	for _, n := range []*Notifier{second, first} {
		must.Do(t, n.Notify(t.Context(), Note{Title: "x", Actions: []Action{{"Open", func() {}}}}))
	}
	<-service.shown
	key := (<-service.shown).actions[2]
	if _, ours := second.remove(8, key); ours {
		t.Error("one notifier took the press of a button of the other's")
	}
	if _, ours := first.remove(7, key); !ours {
		t.Error("a notifier does not know its own button")
	}
}

func TestNotifierWithoutButtons(t *testing.T) {
	service, n := startService(t, "body")
	must.Do(t, n.Notify(t.Context(), Note{Title: "t", Body: "a < b", Actions: []Action{{"Open", func() {}}}}))
	if got := <-service.shown; got.body != "a < b" || len(got.actions) != 0 {
		t.Errorf("the desktop was asked to show %+v, want plain text without buttons", got)
	}
}

func TestNotifierWithoutService(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", bustest.Start(t).Address)
	n := newNotifier(t)
	if err := n.Notify(t.Context(), Note{Title: "t"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

func TestNotifierWithoutBus(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	if _, err := NewNotifier(t.Context()); err == nil {
		t.Error("a bus that is not there was joined")
	}
}

func TestSessionBusMute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Skipf("no socket of that path: %v", err)
	}
	defer func() { _ = listener.Close() }()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+path)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := SessionBus(ctx); err == nil {
		t.Error("a bus that never answers was joined")
	}
}

func TestNotifierTag(t *testing.T) {
	service, n := startService(t, "body")
	show := func(tag string) shownNote {
		must.Do(t, n.Notify(t.Context(), Note{Tag: tag, Title: "x"}))
		return <-service.shown
	}
	if got := show("link:jupyter").replaces; got != 0 {
		t.Errorf("the first replaces %d", got)
	}
	if got := show("link:jupyter").replaces; got != 7 {
		t.Errorf("the second replaces %d, want the first", got)
	}
	if got := show("").replaces; got != 0 {
		t.Errorf("one without a tag replaces %d", got)
	}
	must.Do(t, n.Withdraw(t.Context(), "link:jupyter"))
	if got := <-service.closed; got != 7 {
		t.Errorf("%d was closed", got)
	}
	must.Do(t, service.conn.Emit(notifyPath, notifyName+".NotificationClosed", uint32(7), uint32(3)))
	wait.Until(t, "a closed note is forgotten", func() bool { return n.idOf("link:jupyter") == 0 })
	if err := n.Withdraw(t.Context(), "link:jupyter"); err != nil || len(service.closed) != 0 {
		t.Errorf("withdrawn twice: %v", err)
	}
}
