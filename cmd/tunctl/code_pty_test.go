//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/lab"
)

func TestCodeSSHConfig(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{QueueFor: -1})
	writeFiles(t, c.Home(), map[string]string{"idle.sh": "#!/bin/sh\nwhile :; do sleep 1; done\n"})
	s := personAt(t, c)
	tools := filepath.Join(t.TempDir(), "tools")
	writeFiles(t, tools, map[string]string{"codium": "#!/bin/sh\n"})
	s.env = append(s.env, "PATH="+tools+":"+os.Getenv("PATH"))
	s.setConfig("[session.work]\nhost = \"practice\"\napp = \"shell\"\nsubmit = \"~/idle.sh\"\n")
	s.run("up", "work")

	const question = "add a line for work.tun to"
	k := s.talk("code", "work", "--editor", "codium", "--print")
	k.Reply(question, "no")
	k.Expect("ssh does not know work.tun yet")
	k.WantEnd(exitUsage)
	if text, err := os.ReadFile(filepath.Join(s.home, "ssh_config")); err != nil || strings.Contains(string(text), includeNote) {
		t.Errorf("the ssh config was changed: %v\n%s", err, text)
	}

	k = s.talk("code", "work", "--editor", "codium", "--print")
	k.Reply(question, "")
	k.Expect("vscode-remote://ssh-remote+work.tun/")
	k.WantEnd(0)
	if text, err := os.ReadFile(filepath.Join(s.home, "ssh_config")); err != nil || !strings.Contains(string(text), includeNote) {
		t.Errorf("the ssh config was not changed: %v\n%s", err, text)
	}
}
