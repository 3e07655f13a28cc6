//go:build linux || freebsd || netbsd || openbsd || dragonfly

package desktop

import (
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"image"
	"maps"
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
	shown map[string][]Action // by our name for the note, known before it is shown
	ids   map[uint32]string   // the desktop's ids of the same notes
	tags  map[string]uint32   // the desktop's ids of notes with a tag
}

// NewNotifier connects to the session bus. The notifier ends with ctx, with
// Close, or with the bus.
func NewNotifier(ctx context.Context) (*Notifier, error) {
	conn, err := SessionBus(ctx)
	if err != nil {
		return nil, err
	}
	n := &Notifier{
		conn:  conn,
		shown: map[string][]Action{}, ids: map[uint32]string{}, tags: map[string]uint32{},
	}
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
	name, buttons := n.register(note.Actions)
	urgency := byte(1)
	if note.Urgent {
		urgency = 2
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(urgency)}
	if note.Icon != nil {
		hints["image-data"] = dbus.MakeVariant(imageData(note.Icon))
	}
	var id uint32
	err := server.CallWithContext(ctx, notifyName+".Notify", 0,
		"tunctl", n.tagged(note.Tag), "", note.Title, body, buttons, hints, int32(-1)).Store(&id)

	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		delete(n.shown, name)
		return fmt.Errorf("show a notification: %w", err)
	}
	delete(n.shown, n.ids[id]) // of the note that this one replaces
	delete(n.ids, id)
	if name != "" {
		n.ids[id] = name
	}
	if note.Tag != "" {
		n.tags[note.Tag] = id
	}
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

func imageData(img *image.NRGBA) pixels {
	size := img.Bounds().Size()
	return pixels{int32(size.X), int32(size.Y), int32(img.Stride), true, 8, 4, img.Pix}
}

// tagged is the desktop's id of the note of a tag, 0 for none.
func (n *Notifier) tagged(tag string) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tags[tag]
}

// Withdraw removes the note of a tag, if it is still shown.
func (n *Notifier) Withdraw(ctx context.Context, tag string) error {
	id := n.tagged(tag)
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

// register remembers actions and returns them as the bus wants them: keys and labels in
// turn. A key contains our name for the note, since an answer may arrive before the
// desktop's id. The name is unique: desktops send everybody on the bus what was pressed.
func (n *Notifier) register(actions []Action) (name string, buttons []string) {
	if len(actions) == 0 {
		return "", []string{}
	}
	name = rand.Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shown[name] = actions
	// A click on the note itself is "default". Xfce shows that as a button too, beside
	// the action's own, unless it has no label.
	buttons = []string{"default", ""}
	for i, a := range actions {
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
		name, number = n.ids[id], "0" // "default": a click on the note itself
	}
	actions := n.shown[name]
	delete(n.shown, name)
	delete(n.ids, id)
	maps.DeleteFunc(n.tags, func(_ string, shown uint32) bool { return shown == id })
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(actions) {
		return Action{}, false
	}
	return actions[i], true
}

// busTimeout bounds the handshake with the session bus.
const busTimeout = 5 * time.Second

// SessionBus makes a private connection to the user's session bus, which ends with
// ctx. It never starts a bus: a new one would have no desktop on it.
func SessionBus(ctx context.Context) (*dbus.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	conn, err := dbus.SessionBusPrivateNoAutoStartup(dbus.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("find the session bus: %w", err)
	}
	// The library's handshake has no time limit of its own; closing ends it.
	limit := time.AfterFunc(busTimeout, cancel)
	err = conn.Auth(nil)
	if err == nil {
		err = conn.Hello()
	}
	if !limit.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, fmt.Errorf("join the session bus: %w", err)
	}
	context.AfterFunc(conn.Context(), cancel)
	return conn, nil
}
