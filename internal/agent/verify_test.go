package agent_test

import (
	"context"
	"testing"
	"time"

	"tunctl/internal/agent"
	"tunctl/internal/api"
)

func TestAnUpAfterACancelElsewhereDoesNotCallTheOldJobReady(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.limits = func(l *agent.Limits) { l.Jobs.Query = time.Hour } // the agent does not notice by itself
	w.start()
	before := w.up()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.cluster.KillJob(before.Job.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.Await(ctx, before.Job.ID); err != nil {
		t.Fatal(err)
	}
	answer, err := w.client.Up(ctx, "jupyter")
	if err != nil {
		t.Fatal(err)
	}
	if ready(answer.Session) {
		t.Errorf("job %s is over, and the session is %s", before.Job.ID, answer.Session.State)
	}
	w.until("ready with another job", func(s api.Session) bool { return ready(s) && s.Job.ID != before.Job.ID })
}

func TestAnUpOfASessionThatServesChangesNothing(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	answer, err := w.client.Up(t.Context(), "jupyter")
	if err != nil {
		t.Fatal(err)
	}
	if now := answer.Session; !ready(now) || now.Job.ID != before.Job.ID || !now.Since.Equal(before.Since) {
		t.Errorf("before %+v, after %+v", before, now)
	}
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("%d jobs were submitted", n)
	}
}

func TestAnUpThatIsLeftAtOnceSaysNothingAboutThePage(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.cluster.Pause() // the agent waits for the page, and the person does not
	brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := w.client.Up(brief, "jupyter"); err == nil {
		t.Fatal("the page responded over a link that is paused")
	}
	w.cluster.Resume()
	answer, err := w.client.Up(t.Context(), "jupyter")
	if err != nil {
		t.Fatal(err)
	}
	if now := answer.Session; !ready(now) || !now.Since.Equal(before.Since) {
		t.Errorf("before %+v, after %+v", before, now)
	}
}
