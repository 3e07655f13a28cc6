package real

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/dev/testprogram"
)

// client runs OpenSSH's client, as a person at the laptop would.
type client struct {
	lab     *Lab
	key     string   // another one than the config names
	answers []string // to the questions it asks, in their order
}

func (c client) ssh(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ssh", append([]string{"-F", c.config(t)}, args...)...)
	cmd.Env = append(slices.Clone(cleanEnv), "SSH_ASKPASS="+askpass(t, c.answers), "SSH_ASKPASS_REQUIRE=force")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, complaint.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// config is the lab's ssh_config, with the client's own key if it has one.
func (c client) config(t *testing.T) string {
	t.Helper()
	if c.key == "" {
		return c.lab.SSHConfig()
	}
	text, err := os.ReadFile(c.lab.SSHConfig())
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)IdentityFile .*$`).ReplaceAllLiteralString(string(text), "IdentityFile "+c.lab.KeyFile(c.key))
	file := filepath.Join(t.TempDir(), "ssh_config")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// askpass is a program that gives one answer at each call.
func askpass(t *testing.T, answers []string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nread -r n <" + dir + "/next && echo $((n + 1)) >" + dir + "/next\nsed -n \"${n}p\" " + dir + "/answers\n"
	for name, text := range map[string]string{"next": "1\n", "answers": strings.Join(answers, "\n") + "\n", "askpass": script} {
		if err := testprogram.Write(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "askpass")
}

func TestEachLoginAsksForWhatItSays(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	used := lab.Code()
	for _, x := range []struct {
		name, host, key string
		answers         []string
		refused         string // a word of the refusal
	}{
		{name: "key", host: "lab-login"},
		{name: "key with a passphrase", host: "lab-login", key: "id_pass", answers: []string{Passphrase}},
		{name: "stranger's key", host: "lab-login", key: "id_stranger", refused: "Permission denied"},
		{name: "password", host: "lab-pass", answers: []string{Password}},
		{name: "wrong password", host: "lab-pass", answers: []string{"no", "no", "no"}, refused: "Permission denied"},
		{name: "key then code", host: "lab-otp", answers: []string{used}},
		{name: "code used before", host: "lab-otp", answers: []string{used, used, used}, refused: "Permission denied"},
		{name: "password then code", host: "lab-pwotp", answers: []string{Password, lab.Code()}},
		{name: "certificate", host: "lab-cert"},
		{name: "expired certificate", host: "lab-cert", key: "id_expired", refused: "Permission denied"},
		{name: "tight", host: "lab-tight"},
		{name: "through the jump host", host: "lab-inner"},
		{name: "shell on the jump host", host: "lab-jump", refused: "exit status 1"},
		{name: "compute node without a job", host: "cn01", refused: "no active jobs"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := client{lab: lab, key: x.key, answers: x.answers}
			out, err := c.ssh(t, x.host, "hostname")
			if x.refused == "" && (err != nil || out != "login1") {
				t.Errorf("ssh %s said %q, %v", x.host, out, err)
			}
			if x.refused != "" && (err == nil || !strings.Contains(err.Error(), x.refused)) {
				t.Errorf("ssh %s said %q, %v; want a refusal with %q", x.host, out, err, x.refused)
			}
		})
	}
}

func TestEachLoginShellIsThere(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	for _, u := range users {
		t.Run(u.name, func(t *testing.T) {
			// Two commands, since a shell may become the last one.
			out, err := client{lab: lab}.ssh(t, "-l", u.name, "lab-login", "sh -c 'readlink /proc/$PPID/exe'; true")
			if want := strings.TrimSuffix(u.name, "user"); err != nil || !strings.Contains(u.shell, "bash") && !strings.Contains(out, want) {
				t.Errorf("the shell of %s is %q, %v; want %s", u.name, out, err, u.shell)
			}
		})
	}
}

func TestTightHostForbidsForwarding(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	_, err := client{lab: lab}.ssh(t, "-W", lab.NodeAddr("cn01")+":22", "lab-tight")
	if err == nil || !strings.Contains(err.Error(), "administratively prohibited") {
		t.Errorf("forwarding through lab-tight: %v", err)
	}
}

func TestJumpHostLeadsToOneAddressOnly(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	_, err := client{lab: lab}.ssh(t, "-W", lab.NodeAddr("login1")+":22", "lab-jump")
	if err == nil || !strings.Contains(err.Error(), "administratively prohibited") {
		t.Errorf("forwarding through lab-jump to elsewhere: %v", err)
	}
}
