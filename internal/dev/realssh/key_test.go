//go:build linux

package realssh

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
)

// keyDesk is a desk with a keyring, before a server that accepts passwords and keys.
func keyDesk(t *testing.T) *desk {
	d := newDesk(t, "", nil)
	d.withKeyring()
	d.sshd("PubkeyAuthentication no", "PubkeyAuthentication yes")
	return d
}

// sshd changes the settings of the server of lab-pass until the test ends.
func (d *desk) sshd(was, is string) {
	d.t.Helper()
	const file = "/etc/ssh/lab-pass.conf"
	before := d.onLogin("cat", file)
	restart := func(text string) {
		d.onLogin("sh", "-c", `printf '%s\n' "$1" >"$2"`, "sh", strings.TrimSpace(text), file)
		d.lab.RestartSSHD("lab-pass")
	}
	d.t.Cleanup(func() { restart(before) })
	restart(strings.Replace(before, was, is, 1))
}

// onLogin runs a command on login1 as root.
func (d *desk) onLogin(argv ...string) string {
	d.t.Helper()
	out, err := d.lab.Exec("login1", argv...)
	if err != nil {
		d.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return out
}

const authorizedKeys = "/home/hpcuser/.ssh/authorized_keys"

// logIn logs in by password, and answers the offer of a key.
func (d *desk) logIn(answer string) string {
	d.t.Helper()
	k := d.run("login", "lab-pass")
	k.Expect("password:")
	k.AnswerHidden(real.Password)
	k.Expect("Make a key so that tunctl can reconnect automatically? [Y/n]")
	k.Answer(answer)
	status, said := k.End()
	if status != 0 {
		d.t.Errorf("exit code %d:\n%s", status, said)
	}
	return said
}

// nothingMade checks that there is no key at either end, and that the file there is as it was.
func (d *desk) nothingMade(before string) {
	d.t.Helper()
	if now := d.onLogin("cat", authorizedKeys); now != before {
		d.t.Errorf("authorized_keys was\n%sand is\n%s", before, now)
	}
	if files, _ := filepath.Glob(filepath.Join(d.home, "state", "keys", "*")); len(files) > 0 {
		d.t.Errorf("keys are left: %q", files)
	}
}

// refused is what a command without a terminal says, which must fail.
func (d *desk) refused(args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), testprogram.Path(), args...)
	cmd.Env = d.env
	out, err := cmd.CombinedOutput()
	if err == nil {
		d.t.Errorf("tunctl %s succeeds:\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// TestKey starts with a password, and comes back alone: after a change of networks, in a new agent,
// until the line is removed.
func TestKey(t *testing.T) {
	d := keyDesk(t)
	d.onLogin("sh", "-c", "printf '%s' \"$(cat "+authorizedKeys+")\" >/tmp/x && cat /tmp/x >"+authorizedKeys) // without a final newline
	before := d.onLogin("cat", authorizedKeys)
	if said := d.logIn(""); !strings.Contains(said, "tunctl reconnects automatically from now on") {
		t.Fatal(said)
	}
	file, _ := filepath.Glob(filepath.Join(d.home, "state", "keys", "*"))
	if len(file) != 1 {
		t.Fatalf("the keys are %q", file)
	}
	text, err := os.ReadFile(file[0])
	info, _ := os.Stat(file[0])
	if err != nil || info.Mode().Perm() != 0o600 || exec.Command("ssh-keygen", "-y", "-P", "", "-f", file[0]).Run() == nil {
		t.Errorf("the key (%v, %v) has no passphrase:\n%s", info.Mode(), err, text)
	}
	after := d.onLogin("cat", authorizedKeys)
	if line, ok := strings.CutPrefix(after, before+"\n"); !ok || strings.Count(line, "\n") != 1 || !strings.Contains(line, " tunctl@") {
		t.Errorf("authorized_keys was\n%s\nand is\n%s", before, after)
	}
	if said := d.mustRun("hosts", "lab-pass"); !strings.Contains(said, file[0]) {
		t.Errorf("hosts says:\n%s", said)
	}

	d.lab.Roam()
	d.lab.KillConns("lab-pass")
	wait.Until(t, "it is connected again", func() bool {
		return strings.Contains(d.mustRun("hosts", "lab-pass", "--json"), `"auth": "publickey"`)
	})
	d.mustRun("agent", "stop")
	d.mustRun("login", "lab-pass")
	d.mustRun("key", "install", "lab-pass")
	if now := d.onLogin("cat", authorizedKeys); now != after {
		t.Errorf("a second install made of\n%s\nthis:\n%s", after, now)
	}

	d.onLogin("sed", "-i", "/ tunctl@/d", authorizedKeys)
	d.mustRun("logout", "lab-pass")
	if said := d.refused("login", "lab-pass"); !strings.Contains(said, "to ask for a password") {
		t.Errorf("without the line it says:\n%s", said)
	}
	k := d.run("login", "lab-pass") // which offers nothing again
	k.Expect("password:")
	k.AnswerHidden(real.Password)
	if status, said := k.End(); status != 0 || strings.Contains(said, "Make a key") {
		t.Errorf("exit code %d:\n%s", status, said)
	}
	d.mustRun("key", "install", "lab-pass")
	d.mustRun("key", "remove", "lab-pass")
	d.nothingMade(before + "\n")
}

func TestKeyRefused(t *testing.T) {
	for _, x := range []struct {
		name, says string
		prepare    func(d *desk)
	}{
		{"StrictModes", "other users can change /home/hpcuser, so sshd's StrictModes ignores keys there: chmod go-w /home/hpcuser", func(d *desk) {
			d.onLogin("chmod", "o+w", "/home/hpcuser")
		}},
		{"AuthorizedKeysFile elsewhere", "the centre may read keys elsewhere", func(d *desk) {
			d.sshd("UsePAM yes", "UsePAM yes\nAuthorizedKeysFile /etc/ssh/keys/%u")
		}},
		{"keys switched off", "lab-pass does not accept the new key", func(d *desk) {
			d.sshd("PubkeyAuthentication yes", "PubkeyAuthentication no")
		}},
		{"read-only home", "/home/hpcuser/.ssh/authorized_keys is not writable", func(d *desk) {
			d.onLogin("chmod", "a-w", "/home/hpcuser/.ssh", authorizedKeys)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := keyDesk(t)
			x.prepare(d)
			t.Cleanup(func() {
				d.onLogin("sh", "-c", "chmod 700 /home/hpcuser /home/hpcuser/.ssh; chmod 600 "+authorizedKeys)
			})
			before := d.onLogin("cat", authorizedKeys)
			if said := d.logIn("y"); !strings.Contains(said, x.says) {
				t.Errorf("it says:\n%s", said)
			}
			d.nothingMade(before)
		})
	}
}

func TestKeyWithCode(t *testing.T) {
	d := newDesk(t, "", nil)
	d.withKeyring()
	before := d.onLogin("cat", authorizedKeys)
	k := d.run("login", "lab-pwotp")
	k.Expect("Password:")
	k.AnswerHidden(real.Password)
	k.Expect("One-time password")
	k.AnswerHidden(d.lab.Code())
	if status, said := k.End(); status != 0 || strings.Contains(said, "Make a key") {
		t.Errorf("exit code %d:\n%s", status, said)
	}
	if said := d.refused("key", "install", "lab-pwotp"); !strings.Contains(said, "lab-pwotp does not accept the new key") {
		t.Errorf("it says:\n%s", said)
	}
	d.nothingMade(before)

	k = d.run("login", "lab-otp")
	k.Expect("One-time password")
	k.AnswerHidden(d.lab.Code())
	if status, said := k.End(); status != 0 {
		t.Errorf("exit code %d:\n%s", status, said)
	}
	if said := d.mustRun("key", "install", "lab-otp"); !strings.Contains(said, "it asks for more at each login (keyboard-interactive)") {
		t.Errorf("it says:\n%s", said)
	}
	d.mustRun("key", "remove", "lab-otp")
	d.nothingMade(before)
}

func TestKeyLockedKeyring(t *testing.T) {
	d := keyDesk(t)
	before := d.onLogin("cat", authorizedKeys)
	d.logIn("n")
	d.lockKeyring()
	if said := d.refused("key", "install", "lab-pass"); !strings.Contains(said, "could not make a key for lab-pass") || !strings.Contains(said, "keyring") {
		t.Errorf("it says:\n%s", said)
	}
	d.nothingMade(before)
}

func TestKeyWithoutKeyring(t *testing.T) {
	d := newDesk(t, "", nil)
	d.env = append(d.env, "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent")
	d.sshd("PubkeyAuthentication no", "PubkeyAuthentication yes")
	before := d.onLogin("cat", authorizedKeys)
	k := d.run("login", "lab-pass")
	k.Expect("password:")
	k.AnswerHidden(real.Password)
	k.Expect("Many centres forbid that")
	k.Expect("[y/N]")
	k.Answer("")
	if status, said := k.End(); status != 0 {
		t.Errorf("exit code %d:\n%s", status, said)
	}
	d.nothingMade(before)
	if said := d.refused("key", "install", "lab-pass"); !strings.Contains(said, "`--no-passphrase` makes one without a keyring") {
		t.Errorf("it says:\n%s", said)
	}
	d.mustRun("key", "install", "lab-pass", "--no-passphrase")
	d.mustRun("logout", "lab-pass")
	d.mustRun("login", "lab-pass")
	d.mustRun("key", "remove", "lab-pass")
	d.nothingMade(before)
}
