package agent_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/lab"
)

// oneAnswer is a scheduler that is queried once, before the submission.
func oneAnswer(l *session.Limits) {
	l.Jobs.Query, l.Jobs.QueryMin, l.Jobs.QueryAfterSubmit = time.Hour, time.Hour, 0
}

func TestANewJobsPageIsReadyByItsLogBeforeTheSchedulerSaysThatItRuns(t *testing.T) {
	for _, dialect := range []string{lab.Slurm, lab.PBS} {
		t.Run(dialect, func(t *testing.T) {
			w := newWorldWith(t, lab.Options{Dialect: dialect, QueueFor: 1500 * time.Millisecond})
			w.restart(config+"job = \"practice\"\n", oneAnswer)
			if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
				t.Fatal(err)
			}
			w.until("queued", func(s api.Session) bool { return s.State == api.SessionQueued })
			w.until("starting", func(s api.Session) bool { return s.State == api.SessionStarting })
			if s := w.until("ready", ready); s.Job.State != api.JobRunning || s.Job.Node != "" {
				t.Errorf("the job is %+v", s.Job)
			}
			if code := w.fetch(); code != http.StatusOK {
				t.Errorf("the page answers %d", code)
			}
			w.restart(config+"job = \"practice\"\n", nil)
			if s := w.until("ready, with the node", func(s api.Session) bool { return ready(s) && s.Job.Node != "" }); len(w.cluster.Jobs()) != 1 {
				t.Errorf("there are %d jobs; the session's is %s", len(w.cluster.Jobs()), s.Job.ID)
			}
		})
	}
}

func TestALogWithoutTheJobsNumberDoesNotShowThatItRuns(t *testing.T) {
	w := newWorldWith(t, lab.Options{QueueFor: time.Hour})
	w.restart(config+"job = \"practice\"\n", oneAnswer)
	_, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.script("#!/bin/sh\n#SBATCH --output=out.log\nsleep 600\n")
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.until("queued", func(s api.Session) bool { return s.State == api.SessionQueued })
	w.appendTo("out.log", announcement("cn01", port, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")) // by another job
	if s := w.until("that far in its log", func(s api.Session) bool { return s.Endpoint != nil }); s.State != api.SessionQueued {
		t.Errorf("it is %s: %s", s.State, s.Cause)
	}
}

func TestACancelDuringASubmissionEndsTheJobThatItMade(t *testing.T) {
	w := newWorld(t)
	w.cluster.Slow(100 * time.Millisecond) // so that the answer is still under way
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	for len(w.cluster.Jobs()) == 0 {
		if err := ctxtime.Sleep(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.cluster.Await(ctx, w.cluster.Jobs()[0].ID); err != nil {
		t.Errorf("the job that was submitted keeps running: %v", err)
	}
}

func TestAReconnectSubmitsNothingAndAnOpenTabComesBack(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.fetch() // in a tab
	reconnect := func(meanwhile func()) {
		t.Helper()
		if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
			t.Fatal(err)
		}
		meanwhile()
		if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter", Adopt: true}); err != nil {
			t.Fatal(err)
		}
	}
	reconnect(func() {
		if got := w.get(before.Local, nil); !strings.Contains(got, "jupyter is disconnected") || !strings.Contains(got, "tunctl up jupyter") {
			t.Errorf("the tab shows %.200q", got)
		}
		if now := w.session(); now.Local != "" || len(now.Forwards) > 0 {
			t.Errorf("a session that is down listens: %+v", now)
		}
	})
	if after := w.until("ready", ready); after.Job.ID != before.Job.ID || after.Local != before.Local {
		t.Errorf("connected to job %s at %s, not %s at %s", after.Job.ID, after.Local, before.Job.ID, before.Local)
	}
	reconnect(func() {
		if err := w.cluster.KillJob(before.Job.ID); err != nil {
			t.Fatal(err)
		}
	})
	s := w.until("ended", func(s api.Session) bool { return s.State == api.SessionEnded })
	if !strings.HasPrefix(s.Cause, "job "+before.Job.ID+" ") || strings.Contains(s.Cause, "no longer exists") || !strings.Contains(s.Hint, "`tunctl up jupyter` starts a new one") {
		t.Errorf("%q, %q", s.Cause, s.Hint)
	}
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("%d jobs were submitted", n)
	}
}

func TestACancelledJobHasEnded(t *testing.T) {
	w := newWorld(t)
	if job := w.up().Job; !job.End.After(time.Now()) {
		t.Fatalf("the job has no time limit: %+v", job)
	}
	res, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true})
	if err != nil {
		t.Fatal(err)
	}
	if job := res.Sessions[0].Job; job.State != api.JobCancelled || job.End.After(time.Now()) {
		t.Errorf("cancelled: %+v", job)
	}
}

func TestACancelAfterASubmissionThatNeverBeganLooksForNoJob(t *testing.T) {
	w := newWorld(t)
	w.restart(strings.Replace(config, "~/jupyter.sh", "local:/nonexistent/jupyter.sh", 1), nil)
	for range 2 {
		if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
			t.Fatal(err)
		}
		w.until("failed", func(s api.Session) bool { return s.State == api.SessionFailed })
		if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err != nil {
			t.Error(err)
		}
	}
}

func TestANewAgentOutlivesASchedulersSilence(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.stop()
	w.cluster.Controller(false)
	w.start()
	w.until("waiting for the scheduler", func(s api.Session) bool {
		return s.State == api.SessionSubmitting && strings.Contains(s.Cause, "scheduler does not respond")
	})
	w.cluster.Controller(true)
	if after := w.until("ready", ready); after.Job.ID != before.Job.ID {
		t.Errorf("job %s became job %s", before.Job.ID, after.Job.ID)
	}
}

func TestASubmissionInDoubtIsAPersonsToSettle(t *testing.T) {
	w := newWorld(t)
	w.cluster.FailSubmit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", 1)
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	s := w.until("in doubt", func(s api.Session) bool { return s.State == api.SessionFailed })
	if s.Code != api.CodeNeedsPerson || !strings.Contains(s.Cause, "cannot tell whether the job was submitted") || s.Hint == "" {
		t.Errorf("the person is told %q (%s, %s)", s.Cause, s.Hint, s.Code)
	}
	w.cluster.FailSubmit("", 0)
	w.up() // they looked: it was not
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("there are %d jobs", n)
	}
}

func TestBetweenTwoJobsOfANameThatRunAPersonChooses(t *testing.T) {
	w := newWorld(t)
	w.write(w.paths.Config, config+"job = \"twin\"\n")
	w.stop()
	w.start()
	for up := false; !up; { // it answers at once, and connects meanwhile
		host, err := w.client.Login(t.Context(), "practice")
		if err != nil {
			t.Fatal(err)
		}
		up = host.State == api.HostUp
	}
	var ids []string
	for range 2 {
		job, err := w.client.Submit(t.Context(), "practice", api.SubmitRequest{Script: "~/jupyter.sh", Args: []string{"--job-name=twin"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, job.ID)
		for job.State != api.JobRunning {
			if job, err = w.client.Job(t.Context(), "practice", job.ID); err != nil || job.State.Ended() {
				t.Fatalf("%+v, %v", job, err)
			}
		}
	}
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	s := w.until("failed", func(s api.Session) bool { return s.State == api.SessionFailed })
	for _, id := range ids {
		if !strings.Contains(s.Cause, id) {
			t.Errorf("the cause lacks job %s: %q", id, s.Cause)
		}
	}
	if !strings.Contains(s.Hint, "tunctl attach practice "+ids[1]) {
		t.Errorf("hint %q", s.Hint)
	}
	if list, err := w.client.Jobs(t.Context(), "practice", false); err != nil || len(list.Jobs) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := w.client.Cancel(t.Context(), "practice", ids[0]); err != nil {
		t.Fatal(err)
	}
	if s := w.up(); s.Job.ID != ids[1] {
		t.Errorf("adopted %+v", s.Job)
	}
}

func TestANewAgentKnowsTheJobOfASessionThatIsDown(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	check := func(when string) {
		t.Helper()
		st, err := w.client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, _ := st.Session("jupyter")
		if s.State != api.SessionDown || s.Job == nil || s.Job.ID != before.Job.ID {
			t.Fatalf("%s: %+v", when, s)
		}
		if !strings.Contains(s.Cause, "job "+before.Job.ID+" was last seen running at ") || !strings.Contains(s.Hint, "--cancel") {
			t.Errorf("%s: cause %q, hint %q", when, s.Cause, s.Hint)
		}
	}
	check("after the restart")
	if _, err := w.client.Page(t.Context(), "jupyter"); err == nil { // it makes the session, which stays down
		t.Fatal("a session that is down has a page")
	}
	check("after it was asked for")
}

func TestANewAgentThatCannotConnectKnowsTheJob(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.stop()
	if err := w.cluster.Refuse(true); err != nil {
		t.Fatal(err)
	}
	w.start()
	now := w.until("waiting for the host", func(s api.Session) bool {
		return s.State == api.SessionReconnecting && strings.Contains(s.Cause, "next try")
	})
	if now.Job == nil || now.Job.ID != before.Job.ID {
		t.Errorf("before %+v, after %+v", before.Job, now.Job)
	}
	if err := w.cluster.Refuse(false); err != nil {
		t.Fatal(err)
	}
	if after := w.until("ready", ready); after.Job.ID != before.Job.ID {
		t.Errorf("before %+v, after %+v", before.Job, after.Job)
	}
}

func TestAYoungJobThatTheSchedulerDoesNotKnowIsNotSubmittedAgain(t *testing.T) {
	w := newWorld(t)
	w.up()
	submitted := len(w.cluster.Jobs())
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.rememberedAs(api.Job{ID: "9999", State: api.JobQueued, Submitted: time.Now()}, "")
	w.start()
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.until("with the job it had", func(s api.Session) bool { return s.Job != nil && s.Job.ID == "9999" })
	if n := len(w.cluster.Jobs()); n != submitted {
		t.Errorf("%d jobs were submitted, %d before", n, submitted)
	}
}

func TestAYoungJobOfAnotherAccountIsNotTakenForOneHere(t *testing.T) {
	w := newWorld(t)
	w.up()
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.rememberedAs(api.Job{ID: "9999", State: api.JobQueued, Submitted: time.Now()}, "student@elsewhere.example:22")
	w.start()
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	s := w.until("with a job", func(s api.Session) bool { return s.Job != nil && s.State != api.SessionConnecting })
	if s.Job.ID == "9999" {
		t.Error("a job of another account was adopted")
	}
}

// rememberedAs rewrites what the agent remembers of its session's job, and of the account
// that it is on where one is given.
func (w *world) rememberedAs(job api.Job, account string) {
	w.t.Helper()
	file := w.paths.StateFile()
	data, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(data, &state); err != nil {
		w.t.Fatal(err)
	}
	session := state["sessions"].(map[string]any)["jupyter"].(map[string]any)
	session["submissions"] = []map[string]any{{"role": "job", "job": job, "host": "practice", "account": account}}
	if data, err = json.Marshal(state); err != nil {
		w.t.Fatal(err)
	}
	w.write(file, string(data))
}
