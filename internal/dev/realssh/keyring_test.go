//go:build linux

package realssh

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"tunctl/internal/dev/bustest"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
)

// withKeyring gives the desk an unlocked keyring on a bus of its own.
func (d *desk) withKeyring() {
	d.t.Helper()
	real.Need(d.t, "desktop")
	dir := d.t.TempDir()
	env := append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "XDG_DATA_HOME="+dir, "DISPLAY=")
	bus := bustest.StartSession(d.t, env)
	daemon := exec.CommandContext(d.t.Context(), testprogram.Need(d.t, "gnome-keyring-daemon"), "--unlock", "--foreground", "--components=secrets")
	daemon.Env = append(slices.Clone(env), "DBUS_SESSION_BUS_ADDRESS="+bus.Address)
	daemon.Stdin = strings.NewReader("of the keyring")
	if err := daemon.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	conn := bus.Connect(d.t)
	wait.Until(d.t, "the keyring is unlocked", func() bool { return unlocked(conn) })
	d.env, d.bus = append(d.env, "DBUS_SESSION_BUS_ADDRESS="+bus.Address), conn
}

// lockKeyring locks the keyring; nobody is there to unlock it.
func (d *desk) lockKeyring() {
	d.t.Helper()
	var locked []dbus.ObjectPath
	var prompt dbus.ObjectPath
	const all = "/org/freedesktop/secrets/aliases/default"
	err := d.bus.Object("org.freedesktop.secrets", "/org/freedesktop/secrets").
		Call("org.freedesktop.Secret.Service.Lock", 0, []dbus.ObjectPath{all}).Store(&locked, &prompt)
	if err != nil || unlocked(d.bus) {
		d.t.Fatalf("the keyring is not locked: %v", err)
	}
}

// unlocked reports whether a keyring answers that needs no password. It calls none that is not there yet: the bus would
// start another one, which is locked.
func unlocked(conn *dbus.Conn) bool {
	const secrets = "org.freedesktop.secrets"
	var there bool
	if err := conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, secrets).Store(&there); err != nil || !there {
		return false
	}
	var login dbus.ObjectPath
	if err := conn.Object(secrets, "/org/freedesktop/secrets").Call("org.freedesktop.Secret.Service.ReadAlias", 0, "default").Store(&login); err != nil {
		return false
	}
	locked, err := conn.Object(secrets, login).GetProperty("org.freedesktop.Secret.Collection.Locked")
	return err == nil && locked.Value() == false
}

// mustRun runs the program without a terminal.
func (d *desk) mustRun(args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), testprogram.Path(), args...)
	cmd.Env = d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("tunctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestASavedPasswordLogsInAfterANewStartOfTheAgent(t *testing.T) {
	d := newDesk(t, "", nil)
	d.withKeyring()
	k := d.run("login", "lab-pass", "--save")
	k.Expect("password:")
	k.AnswerHidden(real.Password)
	k.Expect("connected to lab-pass")
	if status, said := k.End(); status != 0 || strings.Contains(said, "warning") {
		t.Fatalf("exit code %d:\n%s", status, said)
	}
	d.mustRun("agent", "stop")
	if out := d.mustRun("login", "lab-pass"); !strings.Contains(out, "connected to lab-pass") {
		t.Errorf("without a terminal it says:\n%s", out)
	}
}

func TestARememberedPasswordLastsAsLongAsTheAgent(t *testing.T) {
	d := newDesk(t, "", nil)
	k := d.run("login", "lab-pass", "--remember")
	k.Expect("password:")
	k.AnswerHidden(real.Password)
	k.Expect("connected to lab-pass")
	d.mustRun("logout", "lab-pass")
	d.mustRun("login", "lab-pass")
	d.mustRun("agent", "stop")
	cmd := exec.CommandContext(t.Context(), testprogram.Path(), "login", "lab-pass")
	cmd.Env = d.env
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("a new agent knows the password:\n%s", out)
	}
}

func TestWithoutAKeyringTheLoginWorksAndSaysThatNothingWasSaved(t *testing.T) {
	d := newDesk(t, "", nil)
	d.env = append(d.env, "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent")
	k := d.run("login", "lab-pass", "--save")
	k.Expect("password:")
	k.AnswerHidden(real.Password)
	k.Expect("the password was not saved: the system keyring is not available")
	k.Expect("connected to lab-pass")
}
