//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/lab"
)

func TestAnEditorThatSSHDoesNotKnowTheWayOfIsOfferedIt(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{QueueFor: -1})
	writeFiles(t, c.Home(), map[string]string{"idle.sh": "#!/bin/sh\nwhile :; do sleep 1; done\n"})
	env, config := personAt(t, c)
	tools := filepath.Join(t.TempDir(), "tools")
	writeFiles(t, tools, map[string]string{"codium": "#!/bin/sh\n"})
	env = append(env, "PATH="+tools+":"+os.Getenv("PATH"))
	if err := os.WriteFile(config, []byte("[session.work]\nhost = \"practice\"\napp = \"shell\"\nsubmit = \"~/idle.sh\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := exec.CommandContext(t.Context(), program, "up", "work")
	up.Env = env
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	const question = "add a line for work.tun to"
	k := startTalk(t, env, "code", "work", "--editor", "codium", "--print")
	k.Expect(question)
	k.Answer("no")
	k.Expect("ssh does not know work.tun yet")
	k.WantEnd(exitUsage)
	if text, err := os.ReadFile(c.SSHConfig()); err != nil || strings.Contains(string(text), includeNote) {
		t.Errorf("the ssh config was changed: %v\n%s", err, text)
	}

	k = startTalk(t, env, "code", "work", "--editor", "codium", "--print")
	k.Expect(question)
	k.Answer("")
	k.Expect("vscode-remote://ssh-remote+work.tun/")
	k.WantEnd(0)
	if text, err := os.ReadFile(c.SSHConfig()); err != nil || !strings.Contains(string(text), includeNote) {
		t.Errorf("the ssh config was not changed: %v\n%s", err, text)
	}
}
