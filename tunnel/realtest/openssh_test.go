//go:build linux

package realtest

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lab/real"
	"tunctl/internal/ptytest"
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

// ownSSH is a desk whose person has logged in to a host by an ssh of their own.
func ownSSH(t *testing.T, host string) *desk {
	t.Helper()
	dir, err := os.MkdirTemp("", "own-") // a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "cm")
	d := newDesk(t, "[host."+host+"]\nreuse_master = true\n", func(text string) string {
		return "Host *\n ControlMaster auto\n ControlPath " + socket + "\n" + text
	})
	k := d.start("ssh", "-F", d.ssh, "-N", host)
	k.Expect("One-time password")
	k.AnswerHidden(d.lab.Code())
	late := time.After(patience)
	for {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			return d
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatal("the person's ssh shares nothing")
		}
	}
}

// stays checks that the person's own connection is of use, and makes no other.
func (d *desk) stays(host string) {
	d.t.Helper()
	out, err := exec.CommandContext(d.t.Context(), "ssh", "-F", d.ssh, "-o", "ProxyCommand=false", host, "hostname").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "login1" {
		d.t.Fatalf("the person's own connection: %v %s", err, out)
	}
}

// agentPID is the process that a crash is.
func (d *desk) agentPID() int {
	d.t.Helper()
	var status struct {
		Agent struct{ PID int }
	}
	if err := json.Unmarshal([]byte(d.mustRun("status", "--json")), &status); err != nil || status.Agent.PID == 0 {
		d.t.Fatalf("the agent's status: %v", err)
	}
	return status.Agent.PID
}

func TestThePersonsOwnSSHIsAskedForACodeAndNobodyElse(t *testing.T) {
	const host = "lab-otp"
	d := ownSSH(t, host)
	for _, fault := range []struct {
		name string
		do   func()
	}{
		{"none", func() {}},
		{"a refused dial", func() {
			if status, said := d.run("connect", host, "localhost:1").End(); status == 0 {
				t.Errorf("a closed port answers:\n%s", said)
			}
		}},
		{"our exit", func() {
			if said := d.mustRun("agent", "restart"); strings.Contains(said, "log in again") {
				t.Errorf("nobody has to:\n%s", said)
			}
		}},
		{"our crash", func() {
			if err := syscall.Kill(d.agentPID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		fault.do()
		d.stays(host)
		if out := d.mustRun("ssh", host, "hostname"); strings.TrimSpace(out) != "login1" {
			t.Errorf("after %s: hostname says %q", fault.name, out)
		}
	}
	var h api.Host
	if err := json.Unmarshal([]byte(d.mustRun("hosts", host, "--json")), &h); err != nil || h.Transport != api.TransportMaster {
		t.Errorf("hosts says %+v, %v", h, err)
	}
}
