//go:build unix

package main

import (
	"strings"
	"testing"

	"tunctl/internal/lab"
)

func TestSessionChoice(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	c.AllowExtend(true)
	writeFiles(t, c.Home(), map[string]string{"jupyter.sh": lab.JobScript(c.Dialect())})
	s := personAt(t, c)
	s.setConfig("[session.near]\nhost = \"practice\"\nforward = [\"18741:cn01:22\"]\n\n[session.job]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n")
	s.run("up", "near")
	s.run("up", "job", "--no-open")

	k := s.talk("extend") // only one session has a job
	k.Expect("job 1001 of job runs until")
	k.Reply("How much longer?", "soon")
	k.Expect(`"soon" is not a time`)
	k.Reply("How much longer?", "1-00:00:00")
	k.Expect("job 1001 runs until")
	k.WantEnd(0)
	k = s.talk("extend", "job")
	k.Reply("How much longer?", "")
	k.Expect("nothing was changed")
	k.WantEnd(exitFailed)

	k = s.talk("down")
	k.Expect("1) near  ready on practice")
	k.Expect("2) job   ready on practice")
	k.Reply("Disconnect which session? [1-2]", "3")
	k.Expect("type a number from 1 to 2, or a session's name")
	k.Reply("Disconnect which session? [1-2]", "2")
	k.Expect("job is down; job 1001 keeps running")
	k.WantEnd(0)
	if left := s.run("status"); !strings.Contains(left, "near     practice  ready") {
		t.Errorf("the other one went too:\n%s", left)
	}
}
