//go:build unix

// Package desktest gives a test a desktop of its own, as real as it gets: an X server,
// a message bus, a panel and a notification service, and eyes and a hand to use them.
package desktest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/bustest"
	"tunctl/internal/dev/wait"
)

const (
	patience = wait.Limit
	// glance is the time between two looks at the screen.
	glance = 100 * time.Millisecond
	// The size of the screen.
	width, height = 1024, 768
)

const panelConfig = `<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-panel" version="1.0">
  <property name="configver" type="int" value="2"/>
  <property name="panels" type="array"><value type="int" value="1"/>
    <property name="panel-1" type="empty">
      <property name="position" type="string" value="p=6;x=0;y=0"/>
      <property name="length" type="uint" value="100"/>
      <property name="size" type="uint" value="32"/>
      <property name="plugin-ids" type="array"><value type="int" value="1"/></property>
    </property>
  </property>
  <property name="plugins" type="empty"><property name="plugin-1" type="string" value="systray"/></property>
</channel>
`

// Desk is a desktop.
type Desk struct {
	Env  []string // for programs that live on it
	Bus  *bustest.Bus
	Home string

	t testing.TB
}

// New sets a desk up in a home of its own, until the test ends. Nothing but the X
// server and the bus run yet.
func New(t testing.TB) *Desk {
	t.Helper()
	home := t.TempDir()
	config := filepath.Join(home, ".config", "xfce4", "xfconf", "xfce-perchannel-xml")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "xfce4-panel.xml"), []byte(panelConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Desk{t: t, Home: home, Env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
		"XDG_CACHE_HOME=" + filepath.Join(home, ".cache"), "XDG_RUNTIME_DIR=" + home,
	}}
	d.Env = append(d.Env, "DISPLAY=:"+d.server())
	d.Bus = bustest.StartSession(t, d.Env)
	d.Env = append(d.Env, "DBUS_SESSION_BUS_ADDRESS="+d.Bus.Address)
	return d
}

// server starts an X server and returns its number.
func (d *Desk) server() string {
	d.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.CommandContext(d.t.Context(), "Xvfb", "-displayfd", "3", "-screen", "0", fmt.Sprintf("%dx%dx24", width, height), "-nolisten", "tcp")
	cmd.ExtraFiles = []*os.File{w}
	d.start(cmd)
	_ = w.Close()
	number, err := bufio.NewReader(r).ReadString('\n')
	_ = r.Close()
	if err != nil {
		d.t.Fatalf("the X server told no number: %v", err)
	}
	return strings.TrimSpace(number)
}

// Start runs a program until the test ends.
func (d *Desk) Start(name string, args ...string) {
	d.t.Helper()
	d.start(d.command(name, args...))
}

// StartPanel starts the panel, with nothing on it but tray icons.
func (d *Desk) StartPanel() { d.Start("xfce4-panel", "--disable-wm-check") }

// StartNotifications starts the notification service.
func (d *Desk) StartNotifications() { d.Start("dunst") }

func (d *Desk) start(cmd *exec.Cmd) {
	d.t.Helper()
	cmd.Env = d.Env
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// Do runs a program to its end and returns what it printed.
func (d *Desk) Do(name string, args ...string) []byte {
	d.t.Helper()
	cmd := d.command(name, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%s: %v: %s", name, err, said.String())
	}
	return out
}

// Look returns the pixels of the screen, and keeps a picture of them where
// TUNCTL_ARTIFACTS says.
func (d *Desk) Look(name string) *image.RGBA {
	d.t.Helper()
	seen := d.pixels()
	d.keep(name, seen)
	return seen
}

// pixels takes them as they are: under the race detector it takes longer to decode a
// picture than to take it.
func (d *Desk) pixels() *image.RGBA {
	d.t.Helper()
	seen := image.NewRGBA(image.Rect(0, 0, width, height))
	seen.Pix = d.Do("import", "-silent", "-window", "root", "-depth", "8", "rgba:-")
	if want := seen.Stride * height; len(seen.Pix) != want {
		d.t.Fatalf("the screen has %d bytes of pixels, want %d", len(seen.Pix), want)
	}
	return seen
}

// keep makes a picture of pixels, where TUNCTL_ARTIFACTS says.
func (d *Desk) keep(name string, seen *image.RGBA) {
	d.t.Helper()
	dir := os.Getenv("TUNCTL_ARTIFACTS")
	if dir == "" {
		return
	}
	size := seen.Bounds().Size()
	cmd := d.command("convert", "-size", fmt.Sprintf("%dx%d", size.X, size.Y), "-depth", "8", "rgba:-", "png:-")
	cmd.Stdin = bytes.NewReader(seen.Pix)
	text, err := cmd.Output()
	if err := errors.Join(err, write(dir, name+".png", text)); err != nil {
		d.t.Fatalf("keep a picture: %v", err)
	}
}

// write writes a file into a folder.
func write(dir, name string, text []byte) error {
	if err := os.MkdirAll(dir, 0o750); err != nil { //nolint:gosec // the folder is the tester's choice
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(root.WriteFile(name, text, 0o600), root.Close())
}

// Await looks until what is seen is as wanted, and keeps a picture of it.
func (d *Desk) Await(name string, wanted func(*image.RGBA) bool) {
	d.t.Helper()
	d.keep(name, d.await(name, wanted))
}

// await looks until what is seen is as wanted.
func (d *Desk) await(name string, wanted func(*image.RGBA) bool) *image.RGBA {
	d.t.Helper()
	limit := time.Now().Add(patience)
	for {
		seen := d.pixels()
		if wanted(seen) {
			return seen
		}
		if time.Now().After(limit) {
			d.keep(name, seen)
			d.t.Fatalf("the screen never showed %s", name)
		}
		d.pause()
	}
}

// pause is the time between two looks: nothing reports that a screen changed.
func (d *Desk) pause() {
	select {
	case <-time.After(glance):
	case <-d.t.Context().Done():
	}
}

// Find looks until a colour is on the screen, and returns the middle of its pixels.
func (d *Desk) Find(name string, want color.NRGBA) image.Point {
	d.t.Helper()
	var middle image.Point
	d.Await(name, func(img *image.RGBA) bool {
		var sum image.Point
		count := 0
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				if c := img.RGBAAt(x, y); c.R == want.R && c.G == want.G && c.B == want.B {
					sum = sum.Add(image.Pt(x, y))
					count++
				}
			}
		}
		if count > 20 {
			middle = sum.Div(count)
		}
		return count > 20
	})
	return middle
}

// Point moves the pointer.
func (d *Desk) Point(at image.Point) {
	d.t.Helper()
	d.Do("xdotool", "mousemove", "--sync", strconv.Itoa(at.X), strconv.Itoa(at.Y))
}

// Click presses and releases the pointer's left button at a place.
func (d *Desk) Click(at image.Point) {
	d.t.Helper()
	d.Point(at)
	d.Do("xdotool", "click", "1")
}

// OpenMenu clicks an icon and returns where its menu came up.
func (d *Desk) OpenMenu(name string, icon image.Point) image.Rectangle {
	d.t.Helper()
	d.Point(icon)
	d.pause() // the panel lights the icon up, which is no menu
	before := d.pixels()
	d.Do("xdotool", "click", "1")
	var menu image.Rectangle
	d.Await(name, func(now *image.RGBA) bool {
		changed := difference(before, now)
		settled := changed == menu
		menu = changed
		return settled && changed.Dy() > 100
	})
	return menu
}

// ClickFirst moves the pointer down a menu until an entry lights up, the first that is
// not greyed, and clicks it.
func (d *Desk) ClickFirst(name string, menu image.Rectangle) {
	d.t.Helper()
	const step = 6 // a quarter of an entry's height
	x := menu.Min.X + menu.Dx()/3
	d.Point(image.Pt(x, menu.Min.Y+1))
	d.pause()
	before := d.pixels()
	for y := menu.Min.Y + step; y < menu.Max.Y; y += step {
		d.Point(image.Pt(x, y))
		d.pause()
		if lit := difference(before, d.pixels()).Intersect(menu); lit.Dx() > menu.Dx()/2 {
			d.clickLit(name, before, menu, image.Pt(x, (lit.Min.Y+lit.Max.Y)/2))
			return
		}
	}
	d.t.Fatal("no entry of the menu lit up")
}

// clickLit clicks an entry of a menu once it is the one that is lit: on a busy machine
// the menu lags behind the pointer.
func (d *Desk) clickLit(name string, unlit *image.RGBA, menu image.Rectangle, at image.Point) {
	d.t.Helper()
	d.Point(at)
	var last image.Rectangle
	d.Await(name, func(now *image.RGBA) bool {
		lit := difference(unlit, now).Intersect(menu)
		settled := lit == last && at.In(lit)
		last = lit
		return settled
	})
	d.Do("xdotool", "click", "1")
}

// difference is the smallest rectangle that holds every pixel that differs.
func difference(a, b *image.RGBA) image.Rectangle {
	var all image.Rectangle
	for y := range a.Bounds().Dy() {
		row := y * a.Stride
		if bytes.Equal(a.Pix[row:row+a.Stride], b.Pix[row:row+a.Stride]) {
			continue
		}
		for x := range a.Bounds().Dx() {
			if a.RGBAAt(x, y) != b.RGBAAt(x, y) {
				all = all.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return all
}
