//go:build linux || freebsd || netbsd || openbsd || dragonfly

package desktop

import (
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	notifyName  = "org.freedesktop.Notifications"
	notifyPath  = "/org/freedesktop/Notifications"
	notifyLimit = 5 * time.Second
)

// Notifier shows notifications over its own connection to the session bus: on a shared
// one, its signals would reach the tray library, which takes any short signal for the
// end of the bus.
type Notifier struct {
	conn *dbus.Conn
	done sync.WaitGroup

	mu    sync.Mutex
	shown map[string]*liveNote // by our names, since an answer may arrive before the desktop's id
}

// liveNote is a note that is shown, or about to be.
type liveNote struct {
	tag     string
	actions []Action
	id      uint32 // the desktop's; 0: not known yet
}

// NewNotifier connects to the session bus. The notifier ends with ctx, with
// Close, or with the bus.
func NewNotifier(ctx context.Context) (*Notifier, error) {
	conn, err := SessionBus(ctx)
	if err != nil {
		return nil, err
	}
	n := &Notifier{conn: conn, shown: map[string]*liveNote{}}
	signals := make(chan *dbus.Signal, 32)
	conn.Signal(signals)
	if err := conn.AddMatchSignal(dbus.WithMatchInterface(notifyName), dbus.WithMatchObjectPath(notifyPath)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("listen for answers to notifications: %w", err)
	}
	n.done.Go(func() {
		for s := range signals {
			n.handleSignal(s)
		}
	})
	return n, nil
}

// Close ends the notifier; what is shown stays.
func (n *Notifier) Close() {
	_ = n.conn.Close()
	n.done.Wait()
}

// Notify shows note.
func (n *Notifier) Notify(ctx context.Context, note Note) error {
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	server := n.conn.Object(notifyName, notifyPath)
	var able []string
	if err := server.CallWithContext(ctx, notifyName+".GetCapabilities", 0).Store(&able); err != nil {
		return fmt.Errorf("%w: no notification service responds: %w", ErrUnavailable, err)
	}
	if !slices.Contains(able, "actions") {
		note.Actions = nil
	}
	body := note.Body
	if slices.Contains(able, "body-markup") {
		body = html.EscapeString(body)
	}
	replaced := n.idOf(note.Tag)
	shown := &liveNote{tag: note.Tag, actions: note.Actions}
	name, buttons := n.register(shown)
	urgency := byte(1)
	if note.Urgent {
		urgency = 2
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(urgency)}
	if note.Icon != nil {
		size := note.Icon.Bounds().Size()
		hints["image-data"] = dbus.MakeVariant(pixels{int32(size.X), int32(size.Y), int32(note.Icon.Stride), true, 8, 4, note.Icon.Pix})
	}
	var id uint32
	err := server.CallWithContext(ctx, notifyName+".Notify", 0,
		"tunctl", replaced, "", note.Title, body, buttons, hints, int32(-1)).Store(&id)

	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		delete(n.shown, name)
		return fmt.Errorf("show a notification: %w", err)
	}
	delete(n.shown, n.nameOf(id)) // the one that this one replaces
	shown.id = id
	return nil
}

// pixels is a picture as the bus wants it.
type pixels struct {
	Width, Height, Stride int32
	HasAlpha              bool
	BitsPerSample         int32
	Channels              int32
	Data                  []byte
}

// idOf is the desktop's id of the note of a tag, 0 for none.
func (n *Notifier) idOf(tag string) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, note := range n.shown {
		if tag != "" && note.tag == tag {
			return note.id
		}
	}
	return 0
}

// nameOf is our name for the note with an id of the desktop's, "" for none.
func (n *Notifier) nameOf(id uint32) string {
	for name, note := range n.shown {
		if note.id == id {
			return name
		}
	}
	return ""
}

// Withdraw removes the note of a tag, if it is still shown.
func (n *Notifier) Withdraw(ctx context.Context, tag string) error {
	id := n.idOf(tag)
	if id == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	if err := n.conn.Object(notifyName, notifyPath).CallWithContext(ctx, notifyName+".CloseNotification", 0, id).Err; err != nil {
		return fmt.Errorf("withdraw a notification: %w", err)
	}
	return nil
}

// register remembers a note and returns its actions as the bus wants them: keys and labels in
// turn. A key contains our name for the note. The name is unique: desktops send everybody on
// the bus what was pressed.
func (n *Notifier) register(note *liveNote) (name string, buttons []string) {
	name = rand.Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shown[name] = note
	if len(note.actions) == 0 {
		return name, []string{}
	}
	// A click on the note itself is "default". Xfce shows that as a button too, beside
	// the action's own, unless it has no label.
	buttons = []string{"default", ""}
	for i, a := range note.actions {
		buttons = append(buttons, name+"."+strconv.Itoa(i), a.Label)
	}
	return name, buttons
}

// handleSignal does what the user chose, or forgets a note that was closed.
func (n *Notifier) handleSignal(s *dbus.Signal) {
	if len(s.Body) < 2 {
		return
	}
	id, ok := s.Body[0].(uint32)
	if !ok {
		return
	}
	key, _ := s.Body[1].(string)
	if action, ok := n.remove(id, key); ok && s.Name == notifyName+".ActionInvoked" {
		action.Do()
	}
}

// remove forgets a note and returns its action of that key.
func (n *Notifier) remove(id uint32, key string) (Action, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, number, found := strings.Cut(key, ".")
	if !found {
		name, number = n.nameOf(id), "0" // "default": a click on the note itself
	}
	note := n.shown[name]
	delete(n.shown, name)
	i, err := strconv.Atoi(number)
	if note == nil || err != nil || i < 0 || i >= len(note.actions) {
		return Action{}, false
	}
	return note.actions[i], true
}

// busTimeout bounds the handshake with the session bus.
const busTimeout = 5 * time.Second

// SessionBus makes a private connection to the user's session bus, which ends with
// ctx. It never starts a bus: a new one would have no desktop on it.
func SessionBus(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.SessionBusPrivateNoAutoStartup(dbus.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("find the session bus: %w", err)
	}
	// The library's handshake has no time limit of its own; closing ends it.
	limit := time.AfterFunc(busTimeout, func() { _ = conn.Close() })
	err = conn.Auth(nil)
	if err == nil {
		err = conn.Hello()
	}
	if !limit.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("join the session bus: %w", err)
	}
	return conn, nil
}
