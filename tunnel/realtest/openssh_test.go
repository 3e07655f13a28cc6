//go:build linux

package realtest

import (
	"strings"
	"testing"

	"tunctl/internal/lab/real"
)

func TestAnSSHThatLogsInForUsAsksAtTheTerminal(t *testing.T) {
	for _, x := range []struct {
		host  string
		talks func(d *desk, k *talk)
	}{
		{"lab-login", func(*desk, *talk) {}},
		{"lab-inner", func(*desk, *talk) {}},
		{"lab-pass", func(_ *desk, k *talk) { k.expect("password:"); k.answerHidden(real.Password) }},
		{"lab-otp", func(d *desk, k *talk) { k.expect("One-time password"); k.answerHidden(d.lab.Code()) }},
		{"lab-pwotp", func(d *desk, k *talk) {
			k.expect("Password:")
			k.answerHidden(real.Password)
			k.expect("One-time password")
			k.answerHidden(d.lab.Code())
		}},
	} {
		t.Run(x.host, func(t *testing.T) {
			d := newDesk(t, "[host."+x.host+"]\ntransport = \"openssh\"\n", nil)
			k := d.run("login", x.host)
			x.talks(d, k)
			k.expect("connected to " + x.host)
			if status, said := k.end(); status != 0 || strings.Contains(said, real.Password) {
				t.Errorf("exit code %d:\n%s", status, said)
			}
			if out := d.mustRun("ssh", x.host, "hostname"); strings.TrimSpace(out) != "login1" {
				t.Errorf("hostname says %q", out)
			}
		})
	}
}
