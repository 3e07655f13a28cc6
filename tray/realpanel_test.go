//go:build linux

package tray

import (
	"bufio"
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/desktop/bustest"
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

// desk is an X server with a message bus, a panel and a notification service.
type desk struct {
	t   *testing.T
	env []string
}

// newDesk sets a desk up in a home of its own.
func newDesk(t *testing.T) (*desk, *bustest.Bus) {
	t.Helper()
	if os.Getenv("TUNCTL_REAL") != "1" {
		t.Skip("a real desktop is only set up with TUNCTL_REAL=1")
	}
	for _, program := range []string{"Xvfb", "xfce4-panel", "dunst", "xdotool", "import"} {
		bustest.RequireOrSkip(t, program)
	}
	home := t.TempDir()
	config := filepath.Join(home, ".config", "xfce4", "xfconf", "xfce-perchannel-xml")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "xfce4-panel.xml"), []byte(panelConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
		"XDG_CACHE_HOME=" + filepath.Join(home, ".cache"), "XDG_RUNTIME_DIR=" + home,
	}}
	d.env = append(d.env, "DISPLAY=:"+d.server())
	bus := bustest.StartSession(t, d.env)
	d.env = append(d.env, "DBUS_SESSION_BUS_ADDRESS="+bus.Address)
	return d, bus
}

// server starts an X server and returns its number.
func (d *desk) server() string {
	d.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.CommandContext(d.t.Context(), "Xvfb", "-displayfd", "3", "-screen", "0", "800x600x24", "-nolisten", "tcp")
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

// start runs a program until the test ends.
func (d *desk) start(cmd *exec.Cmd) {
	d.t.Helper()
	cmd.Env = d.env
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// do runs a program to its end and returns what it printed.
func (d *desk) do(name string, args ...string) []byte {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), name, args...)
	cmd.Env = d.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%s: %v: %s", name, err, said.String())
	}
	return out
}

// look takes a picture of the screen, and keeps it where TUNCTL_ARTIFACTS says.
func (d *desk) look(name string) image.Image {
	d.t.Helper()
	text := d.do("import", "-silent", "-window", "root", "png:-")
	if dir := os.Getenv("TUNCTL_ARTIFACTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), text, 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	img, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		d.t.Fatal(err)
	}
	return img
}

// find looks until a colour is on the screen, and returns the middle of its pixels.
func (d *desk) find(name string, want color.NRGBA) image.Point {
	d.t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		img := d.look(name)
		var sum image.Point
		count := 0
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				r, g, b, _ := img.At(x, y).RGBA()
				if uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
					sum = sum.Add(image.Pt(x, y))
					count++
				}
			}
		}
		if count > 20 {
			return sum.Div(count)
		}
	}
	d.t.Fatalf("nothing in %v on the screen", want)
	return image.Point{}
}

func TestTheNotebookOpensFromARealPanel(t *testing.T) {
	d, bus := newDesk(t)
	d.start(exec.CommandContext(t.Context(), "dunst"))
	p := startTray(t, bus.Address, "real")
	p.hears("tell") // there is no panel yet
	d.start(exec.CommandContext(t.Context(), "xfce4-panel", "--disable-wm-check"))

	p.send(statuses["needs-login"])
	d.find("panel-needs-you", iconColours[IconNeedsYou])
	p.send(statuses["ready"])
	at := d.find("panel-ready", iconColours[IconReady])

	d.do("xdotool", "mousemove", strconv.Itoa(at.X), strconv.Itoa(at.Y), "click", "1")
	for limit := time.Now().Add(patience); ; { // the menu takes a moment to come up
		if img := d.look("panel-menu"); !blank(img, image.Rect(at.X, 60, at.X+150, 300)) {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the menu did not open")
		}
	}
	d.do("xdotool", "key", "Down", "key", "Return") // past the status line, which is greyed
	if got, want := p.hears("browse"), "browse http://localhost:8888/jupyter?token=s3cr3t"; got != want {
		t.Errorf("the panel's click led to %q, want %q", got, want)
	}
}

// blank reports whether a part of a picture has one colour.
func blank(img image.Image, part image.Rectangle) bool {
	first := img.At(part.Min.X, part.Min.Y)
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			if img.At(x, y) != first {
				return false
			}
		}
	}
	return true
}
