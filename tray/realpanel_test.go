//go:build linux

package tray

import (
	"testing"

	"tunctl/internal/dev/desktest"
	"tunctl/internal/dev/real"
)

func TestTheNotebookOpensFromARealPanel(t *testing.T) {
	real.Need(t, "desktop")
	d := desktest.New(t)
	d.StartNotifications()
	p := startTray(t, d.Bus.Address, "real")
	p.hears("tell") // there is no panel yet
	d.StartPanel()

	p.send(statuses["needs-login"])
	d.Find("panel-needs-you", iconColours[iconNeedsYou])
	p.send(statuses["ready"])
	menu := d.OpenMenu("panel-menu", d.Find("panel-ready", iconColours[iconReady]))
	d.ClickFirst("panel-pointed", menu)
	if got, want := p.hears("browse"), "browse http://localhost:8888/jupyter?token=s3cr3t"; got != want {
		t.Errorf("the panel's click led to %q, want %q", got, want)
	}
}
