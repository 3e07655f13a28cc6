//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"tunctl/internal/lab"
)

func TestAPersonAtATerminalPicksOneOfSeveralSessions(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	c.AllowExtend(true)
	if err := os.WriteFile(c.Home()+"/jupyter.sh", []byte(lab.JobScript(c.Dialect())), 0o600); err != nil {
		t.Fatal(err)
	}
	env, config := personAt(t, c)
	sessions := "[session.near]\nhost = \"practice\"\nforward = [\"18741:cn01:22\"]\n\n[session.job]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n"
	if err := os.WriteFile(config, []byte(sessions), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("up", "near")
	run("up", "job", "--no-open")

	k := startTalk(t, env, "extend") // only one session has a job
	k.Expect("job 1001 of job runs until")
	k.Expect("How much longer?")
	k.Answer("soon")
	k.Expect(`"soon" is not a time`)
	k.Expect("How much longer?")
	k.Answer("1-00:00:00")
	k.Expect("job 1001 runs until")
	k.WantEnd(0)
	k = startTalk(t, env, "extend", "job")
	k.Expect("How much longer?")
	k.Answer("")
	k.Expect("nothing was changed")
	k.WantEnd(exitFailed)

	k = startTalk(t, env, "down")
	k.Expect("1) near  ready on practice")
	k.Expect("2) job   ready on practice")
	k.Expect("Disconnect which session? [1-2]")
	k.Answer("3")
	k.Expect("type a number from 1 to 2, or a session's name")
	k.Expect("Disconnect which session? [1-2]")
	k.Answer("2")
	k.Expect("job is down; job 1001 keeps running")
	k.WantEnd(0)
	if left := run("status"); !strings.Contains(left, "near     practice  ready") {
		t.Errorf("the other one went too:\n%s", left)
	}
}
