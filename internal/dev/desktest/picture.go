//go:build unix

package desktest

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"os"
	"path/filepath"
	"time"
)

// margin is the space around what a picture shows.
const margin = 12

const xfceNotifyConfig = `<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-notifyd" version="1.0">
  <property name="theme" type="string" value="%s"/>
  <property name="initial-opacity" type="double" value="1.0"/>
  <property name="do-slideout" type="bool" value="false"/>
</channel>
`

const dunstConfig = `[global]
width = 420
height = 200
font = Sans 11
corner_radius = 6
frame_width = 1
frame_color = "#808488"
[urgency_low]
background = "%[1]s"
foreground = "%[2]s"
[urgency_normal]
background = "%[1]s"
foreground = "%[2]s"
[urgency_critical]
background = "%[1]s"
foreground = "%[2]s"
frame_color = "#d06f00"
`

// Dress chooses the looks of the programs that are started from now on.
func (d *Desk) Dress(dark bool) {
	d.t.Helper()
	gtk, xfce, paper, ink := "Adwaita", "Bright", "#ffffff", "#1d2430"
	if dark {
		gtk, xfce, paper, ink = "Adwaita:dark", "Default", "#1d2128", "#e8ebf0"
	}
	d.Env = append(d.Env, "GTK_THEME="+gtk)
	config := filepath.Join(d.Home, ".config")
	for path, text := range map[string]string{
		filepath.Join("xfce4", "xfconf", "xfce-perchannel-xml", "xfce4-notifyd.xml"): fmt.Sprintf(xfceNotifyConfig, xfce),
		filepath.Join("dunst", "dunstrc"):                                            fmt.Sprintf(dunstConfig, paper, ink),
	} {
		path = filepath.Join(config, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
}

// StartService starts a program and waits until it has its name on the bus, so that no
// other program for the same is started in its place.
func (d *Desk) StartService(name, program string, args ...string) {
	d.t.Helper()
	d.Start(program, args...)
	bus := d.Bus.Connect(d.t)
	for limit := time.Now().Add(patience); ; d.pause() {
		var owned bool
		if err := bus.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, name).Store(&owned); err != nil {
			d.t.Fatal(err)
		}
		switch {
		case owned:
			return
		case time.Now().After(limit):
			d.t.Fatalf("%s does not serve %s", program, name)
		}
	}
}

// PictureOf is Picture of what do makes appear. A panel that is just redrawing an icon
// loses a click: do is done again after a while.
func (d *Desk) PictureOf(name string, before *image.RGBA, do func()) image.Rectangle {
	d.t.Helper()
	const again = 30 // looks
	looked := 0
	d.await(name, func(now *image.RGBA) bool {
		if difference(before, now).Dy() > 4*margin {
			return true
		}
		if looked%again == 0 {
			do()
		}
		looked++
		return false
	})
	return d.Picture(name, before)
}

// Until waits until the screen is as it was.
func (d *Desk) Until(name string, before *image.RGBA) {
	d.t.Helper()
	d.await(name, func(now *image.RGBA) bool { return bytes.Equal(now.Pix, before.Pix) })
}

// Picture waits until the screen shows something else than before and stands still, and
// keeps what is new, in the folder that TUNCTL_ARTIFACTS names. It returns where that is.
func (d *Desk) Picture(name string, before *image.RGBA) image.Rectangle {
	d.t.Helper()
	var last *image.RGBA
	var changed image.Rectangle
	d.await(name, func(now *image.RGBA) bool {
		changed = difference(before, now)
		still := last != nil && bytes.Equal(last.Pix, now.Pix)
		last = now
		return still && changed.Dx() > margin && changed.Dy() > margin
	})
	d.KeepPart(name, last, changed)
	return changed
}

// KeepPart keeps a part of the screen with some space around it.
func (d *Desk) KeepPart(name string, screen *image.RGBA, part image.Rectangle) {
	d.t.Helper()
	part = part.Inset(-margin).Intersect(screen.Bounds())
	cut := image.NewRGBA(image.Rect(0, 0, part.Dx(), part.Dy()))
	draw.Draw(cut, cut.Bounds(), screen, part.Min, draw.Src)
	d.keep(name, cut)
}

// Pixels are those of the screen.
func (d *Desk) Pixels() *image.RGBA {
	d.t.Helper()
	return d.pixels()
}

// Press presses keys, one after another.
func (d *Desk) Press(keys ...string) {
	d.t.Helper()
	d.Do("xdotool", append([]string{"key", "--delay", "60"}, keys...)...)
}
