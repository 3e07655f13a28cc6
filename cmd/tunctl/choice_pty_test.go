//go:build unix

package main

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"tunctl/internal/dev/testport"
	"tunctl/internal/lab"
)

func TestSessionChoice(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	c.AllowExtend(true)
	writeFiles(t, c.Home(), map[string]string{"jupyter.sh": lab.JobScript(c.Dialect())})
	s := personAt(t, c)
	s.setConfig("[session.near]\nhost = \"practice\"\nforward = [\"0:cn01:22\"]\n\n[session.job]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n")
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
	k.Reply("How much longer? (such as 30m, 2h or 1d; Enter for none) ", "")
	k.Expect("nothing was changed")
	k.WantEnd(exitFailed)

	k = s.talk("down")
	k.Expect("1) near  ready on practice")
	k.Expect("2) job   ready on practice")
	k.Reply("Disconnect which session? [1-2]", "3")
	k.Expect("type a number from 1 to 2, or a session's name")
	k.Reply("Disconnect which session? [1-2]", "2")
	k.Expect("job is disconnected; job 1001 keeps running")
	k.WantEnd(0)
	if left := s.run("status"); !strings.Contains(left, "near     practice  ready") {
		t.Errorf("the other one went too:\n%s", left)
	}
}

func TestPortChoice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what listens is read from /proc")
	}
	t.Parallel()
	c := startPractice(t, lab.Options{})
	port := strconv.Itoa(testport.Free(t))
	job := strings.ReplaceAll(`#!/bin/bash
#SBATCH --job-name=board
practice-page --port PORT >/dev/null 2>&1 &
until (exec 3<>/dev/tcp/localhost/PORT) 2>/dev/null; do sleep 0.1; done
practice-page
`, "PORT", port)
	writeFiles(t, c.Home(), map[string]string{"board.sh": job})
	s := personAt(t, c)
	s.setConfig("[session.board]\nhost = \"practice\"\nsubmit = \"~/board.sh\"\n")
	s.run("up", "board", "--no-open")

	const question = "Enter for none)?"
	k := s.talk("forward", "board")
	k.Reply(question, "")
	k.WantEnd(0)
	k = s.talk("forward", "board")
	k.Reply(question, "1")
	k.Expect(`"1" is not one of these ports`)
	k.WantEnd(exitUsage)
	k = s.talk("forward", "board")
	k.Reply(question, port)
	k.Expect("→ localhost:" + port + " on cn0")
	k.WantEnd(0)
	if st := s.run("status", "board"); !strings.Contains(st, "→ localhost:"+port+" on cn0") {
		t.Errorf("it is not forwarded:\n%s", st)
	}
}
