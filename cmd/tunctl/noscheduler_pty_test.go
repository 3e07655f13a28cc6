//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
)

// hideSchedulers gives a cluster's login shell a PATH without any scheduler.
func hideSchedulers(t *testing.T, c *lab.Cluster) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"awk", "bash", "cat", "chmod", "cp", "cut", "date", "df", "env", "find", "grep", "head", "id", "ls", "mkdir", "mktemp", "mv", "ps", "readlink",
		"rm", "rmdir", "sed", "setsid", "sh", "sleep", "sort", "stat", "tail", "test", "timeout", "tr", "uname", "wc",
	} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeFiles(t, c.Home(), map[string]string{".profile": fmt.Sprintf("PATH='%s'\n", dir)})
}

func TestNoScheduler(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	hideSchedulers(t, c)
	writeFiles(t, c.Home(), map[string]string{
		"own.sh":   "#!/bin/sh\n: >\"$HOME/started\"\necho 'Jupyter Server is running at http://127.0.0.1:1/lab?token=abc'\nwhile test ! -f stop; do sleep 0.1; done\n",
		"batch.sh": "#!/bin/sh\n#SBATCH --mem=64G\n: >\"$HOME/started\"\n",
	})
	s := personAt(t, c)
	const before = "[session.own]\nhost = \"practice\"\nsubmit = \"~/own.sh\"\n\n[session.batch]\nhost = \"practice\"\nsubmit = \"~/batch.sh\"\n"
	s.setConfig(before)
	run := func(args ...string) (text string, exit int) {
		cmd := s.command(args...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	started := func() bool { _, err := os.Stat(filepath.Join(c.Home(), "started")); return err == nil }
	for _, args := range [][]string{{"up", "own"}, {"up", "batch"}, {"up", "batch", "--dry-run"}, {"submit", "practice", "~/own.sh"}} {
		text, exit := run(args...)
		if exit != 2 || !strings.Contains(text, "no scheduler was found on practice: none of sbatch, ") || !strings.Contains(text, `set scheduler = "none" in [host.practice]`) || started() {
			t.Errorf("%s: exit %d, started %v\n%s", args, exit, started(), text)
		}
	}
	k := s.talk("up", "own")
	k.Reply("No scheduler was found on practice. Is this your own machine, so that jobs may run on it directly? [y/N]", "n")
	k.WantEnd(2)
	if started() {
		t.Fatal("a job was started although the answer was no")
	}
	k = s.talk("up", "own")
	k.Reply("Is this your own machine", "y")
	k.Expect("job own-")
	wait.Until(t, "the job has started", started)
	k.Signal(os.Interrupt)
	k.WantEnd(130)
	if text := s.config(); text != before+"\n[host.practice]\nscheduler = \"none\"\n" || !started() {
		t.Errorf("started %v, the config is\n%s", started(), text)
	}
	if err := os.Remove(filepath.Join(c.Home(), "started")); err != nil {
		t.Fatal(err)
	}
	text, exit := run("up", "batch", "--no-open") // the user's word is about the machine, not about this script
	if exit == 0 || !strings.Contains(text, "the script has lines for a scheduler, such as #SBATCH") || started() {
		t.Errorf("exit %d, started %v\n%s", exit, started(), text)
	}
	if text, _ = run("up", "batch", "--dry-run"); !strings.Contains(text, "the script has lines for a scheduler") {
		t.Errorf("dry-run: %s", text)
	}
	writeFiles(t, c.Home(), map[string]string{"stop": ""})
}

func TestNoSchedulerInit(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	hideSchedulers(t, c)
	s := personAt(t, c)
	if err := os.Remove(filepath.Join(s.home, "sites", "ours.toml")); err != nil {
		t.Fatal(err)
	}
	k := s.talk("init", "practice")
	k.Reply("No scheduler was found on practice. Is this your own machine", "")
	k.Expect("no scheduler was found on practice, so nothing was written")
	k.WantEnd(2)
	if text := s.config(); strings.Contains(text, "[host.practice]") {
		t.Errorf("the config is\n%s", text)
	}
	installJupyter(t, filepath.Join(c.Home(), "envs", "lab"), "4.2.5")
	k = s.talk("init", "practice")
	k.Reply("Is this your own machine", "yes")
	k.Expect("~/envs/lab")
	k.Reply("press Enter to continue", "")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	s.wantConfig("[host.practice]\nscheduler = \"none\"\n")
}
