//go:build linux

package realssh

import (
	"strings"
	"testing"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/real"
)

func TestAnSSHThatLogsInForUsAsksAtTheTerminal(t *testing.T) {
	for _, x := range []struct {
		host  string
		talks func(d *desk, k *ptytest.Program)
	}{
		{"lab-login", func(*desk, *ptytest.Program) {}},
		{"lab-inner", func(*desk, *ptytest.Program) {}},
		{"lab-pass", func(_ *desk, k *ptytest.Program) { k.Expect("password:"); k.AnswerHidden(real.Password) }},
		{"lab-otp", func(d *desk, k *ptytest.Program) { k.Expect("One-time password"); k.AnswerHidden(d.lab.Code()) }},
		{"lab-pwotp", func(d *desk, k *ptytest.Program) {
			k.Expect("Password:")
			k.AnswerHidden(real.Password)
			k.Expect("One-time password")
			k.AnswerHidden(d.lab.Code())
		}},
	} {
		t.Run(x.host, func(t *testing.T) {
			d := newDesk(t, "[host."+x.host+"]\ntransport = \"openssh\"\n", nil)
			k := d.run("login", x.host)
			x.talks(d, k)
			k.Expect("connected to " + x.host)
			if status, said := k.End(); status != 0 || strings.Contains(said, real.Password) {
				t.Errorf("exit code %d:\n%s", status, said)
			}
			if out := d.mustRun("ssh", x.host, "hostname"); strings.TrimSpace(out) != "login1" {
				t.Errorf("hostname says %q", out)
			}
		})
	}
}
