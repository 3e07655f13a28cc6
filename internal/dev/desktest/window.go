//go:build unix

package desktest

import (
	"bytes"
	"image"
	"os/exec"
	"strings"
	"time"
)

// Window is a window on the desk.
type Window struct {
	desk *Desk
	id   string
}

// Window waits until a window with this title is there and drawn to its end, keeps a
// picture of it, and gives it the keyboard.
func (d *Desk) Window(name, title string) Window {
	d.t.Helper()
	w := Window{desk: d}
	for limit := time.Now().Add(patience); w.id == ""; d.pause() {
		// Without a match it fails; with --sync it would wait for ever.
		out, _ := d.command("xdotool", "search", "--onlyvisible", "--name", title).Output()
		if ids := strings.Fields(string(out)); len(ids) > 0 {
			w.id = ids[0]
		} else if time.Now().After(limit) {
			d.Look(name)
			d.t.Fatalf("no window %q came", title)
		}
	}
	var before *image.RGBA
	d.Await(name, func(now *image.RGBA) bool {
		still := before != nil && bytes.Equal(before.Pix, now.Pix)
		before = now
		return still
	})
	d.Do("xdotool", "windowfocus", w.id) // there is no window manager to do so
	return w
}

// Answer types text and then presses a key that ends the window.
func (w Window) Answer(text, key string) {
	w.desk.t.Helper()
	if text != "" {
		w.desk.Do("xdotool", "type", text)
	}
	w.desk.Do("xdotool", "key", key)
	for limit := time.Now().Add(patience); w.desk.command("xdotool", "getwindowname", w.id).Run() == nil; w.desk.pause() {
		if time.Now().After(limit) {
			w.desk.t.Fatal("the window does not go")
		}
	}
}

// command is a program on this desk.
func (d *Desk) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), name, args...)
	cmd.Env = d.Env
	return cmd
}
