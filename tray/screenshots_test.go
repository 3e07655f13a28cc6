//go:build linux

package tray

import (
	"context"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/dev/desktest"
	"tunctl/internal/dev/must"
	"tunctl/internal/dev/real"
)

// looks are the themes that pictures are taken in.
var looks = map[string]bool{"light": false, "dark": true} // dark or not

// aside is where the pointer touches nothing.
var aside = image.Pt(900, 700)

// forPictures skips a test that takes pictures to be looked at, unless they are wanted:
// `make screenshots` wants them.
func forPictures(t *testing.T) {
	t.Helper()
	if os.Getenv("TUNCTL_SCREENSHOTS") != "1" {
		t.Skip("pictures are taken by `make screenshots`")
	}
	real.Need(t, "desktop")
}

// shifted is a view of noon as it is at another time.
func shifted(v view, by time.Duration) view {
	v.Status.Sessions = slices.Clone(v.Status.Sessions)
	for i := range v.Status.Sessions {
		s := &v.Status.Sessions[i]
		s.Since = s.Since.Add(by)
		if s.Job == nil {
			continue
		}
		j := *s.Job
		for _, at := range []*time.Time{&j.Submitted, &j.Start, &j.End, &j.ExpectedStart} {
			if !at.IsZero() {
				*at = at.Add(by)
			}
		}
		s.Job = &j
	}
	return v
}

// TestMenuOnARealPanel takes a picture of every menu with its first session's
// entries.
func TestMenuOnARealPanel(t *testing.T) {
	forPictures(t)
	for look, dark := range looks {
		t.Run(look, func(t *testing.T) {
			d := desktest.New(t)
			d.Dress(dark)
			d.StartPanel()
			d.Point(aside)
			p := startTray(t, d.Bus.Address, silentTray)
			for name, v := range statuses {
				if !v.Reached || len(v.Asking) > 0 {
					continue // before the agent answers for the first time, see below; or with a dialog
				}
				v = shifted(v, time.Since(noon))
				v.Now, v.CanAutostart = time.Now(), true
				p.send(v)
				picture(d, "menu-"+name+"-"+look, menuFor(v))
			}
			if _, err := p.in.Write([]byte("gone\n")); err != nil {
				t.Fatal(err)
			}
			picture(d, "menu-no-agent-"+look, menuFor(view{CanAutostart: true}))
		})
	}
}

// picture opens the menu, and in it what can be done about the first session.
func picture(d *desktest.Desk, name string, m menu) {
	icon := d.Find(name, iconColours[m.Icon])
	before := d.Pixels()
	shown := d.PictureOf(name, before, func() { d.Click(icon) })
	downs := 0
	for _, it := range m.Items {
		if it.Enabled {
			downs++
		}
		if it.ID.verb.name == "session" {
			menu := d.Pixels()
			d.Press(append(slices.Repeat([]string{"Down"}, downs), "Right")...)
			shown = shown.Union(d.Picture(name, menu))
			d.KeepPart(name, d.Pixels(), shown)
			break
		}
	}
	d.Press("Escape", "Escape", "Escape")
	d.Point(aside)
	d.Until(name, before)
}

// TestNotificationOnARealDesktop takes a picture of every notification.
func TestNotificationOnARealDesktop(t *testing.T) {
	forPictures(t)
	for look, dark := range looks {
		for service, program := range map[string]string{"xfce": "/usr/lib/x86_64-linux-gnu/xfce4/notifyd/xfce4-notifyd", "dunst": "dunst"} {
			t.Run(service+"-"+look, func(t *testing.T) {
				d := desktest.New(t)
				d.Dress(dark)
				d.StartService("org.freedesktop.Notifications", program)
				t.Setenv("DBUS_SESSION_BUS_ADDRESS", d.Bus.Address)
				notifier, err := desktop.NewNotifier(t.Context())
				must.Do(t, err)
				defer notifier.Close()
				o := Options{Login: func(context.Context, string) error { return nil }}
				c := newController(o, nil, nil)
				c.notifier = notifier
				d.Point(aside)
				for name, n := range told() {
					before := d.Pixels()
					n.kind = "picture" // so that it has a tag
					c.announce(n)
					must.Do(t, (<-c.outbox)(t.Context()))
					d.Picture("notification-"+name+"-"+service+"-"+look, before)
					c.withdraw(n.tag())
					must.Do(t, (<-c.outbox)(t.Context()))
					d.Until(name, before)
				}
			})
		}
	}
}

// asked are the questions of a login.
var asked = map[string]api.Prompt{
	"password": {Host: "narval", Kind: api.PromptPassword, Text: "alice@narval.alliancecan.ca's password: "},
	"wrong-password": {
		Host: "narval", Kind: api.PromptPassword, Text: "alice@narval.alliancecan.ca's password: ",
		Retry: "that was not right; 2 more tries before tunctl stops",
	},
	"code":       {Host: "narval", Kind: api.PromptQuestion, Text: "Passcode or option (1-2): ", Instruction: "Duo two-factor login for alice\n\nEnter a passcode or select one of the following options:\n\n 1. Duo Push to phone (XXX-XXX-1234)\n 2. SMS passcode", Echo: true},
	"passphrase": {Host: "narval", Kind: api.PromptPassphrase, Text: "Enter passphrase for key '/home/alice/.ssh/id_ed25519': "},
	"hostkey": {
		Host: "narval", Kind: api.PromptHostKey, Echo: true, Fingerprint: "SHA256:4lTfxaV9xBqWn0yM1w5Zr2u3S6hJkLpQeRtYvXcDg8",
		Text: "The authenticity of narval.alliancecan.ca can't be established. Its ED25519 key fingerprint is SHA256:4lTfxaV9xBqWn0yM1w5Zr2u3S6hJkLpQeRtYvXcDg8. " +
			"Compare it with the one that your computing centre publishes (its pages begin at https://docs.alliancecan.ca/wiki/Narval). " +
			"If they differ, stop: another machine may be posing as this host. Trust it?",
	},
	"ban": {Host: "narval", Kind: api.PromptConfirm, Echo: true, Text: "narval may have banned this address after refused logins; another try can prolong that. Try anyway?"},
}

// TestPromptOnARealDesktop takes a picture of every dialog.
func TestPromptOnARealDesktop(t *testing.T) {
	forPictures(t)
	for look, dark := range looks {
		t.Run(look, func(t *testing.T) {
			d := desktest.New(t)
			d.Dress(dark)
			for _, kv := range d.Env {
				name, value, _ := strings.Cut(kv, "=")
				t.Setenv(name, value)
			}
			for name, p := range asked {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				before := d.Pixels()
				go func() {
					defer close(done)
					_, _ = desktop.Ask(ctx, questionFor(p, "tunctl is connecting to narval for jupyter."))
				}()
				d.Picture("dialog-"+name+"-"+look, before)
				cancel()
				<-done
			}
		})
	}
}

// TestPageInARealBrowser takes pictures of the pages that the menu shows.
func TestPageInARealBrowser(t *testing.T) {
	forPictures(t)
	real.Need(t, "browser")
	o := Options{desk: &desk{show: func(_ context.Context, path string) error {
		desktest.PicturePage(t, "tray-"+strings.TrimSuffix(filepath.Base(path), ".html"), "file://"+path)
		return nil
	}}}
	c := newController(o, nil, nil)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	failed := statuses["failed"].Status.Sessions[0]
	failed.Hint = "fix the job script, then `tunctl up jupyter`; `tunctl logs jupyter` shows the whole log"
	for _, show := range []func(context.Context) error{c.showPage("help.html", nil), c.showDetails(troublePage(failed, noon))} {
		must.Do(t, show(t.Context()))
	}
}
