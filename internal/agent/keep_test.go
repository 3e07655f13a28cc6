package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/lab"
)

// keepConfig keeps jobs of an hour, which keepWorld has near their end.
const keepConfig = `
[session.jupyter]
host   = "practice"
submit = "~/jupyter.sh"
args   = ["--time=1:00:00"]
keep   = true
`

// restart has the agent start anew, with another config and limits.
func (w *world) restart(config string, limits func(*session.Limits)) {
	w.t.Helper()
	w.stop()
	w.write(w.paths.Config, config)
	w.limits = limits
	w.start()
}

// keepWorld is one in which the next job is due as soon as one runs.
func keepWorld(t *testing.T, limits func(*session.Limits)) *world {
	t.Helper()
	w := newWorld(t)
	w.cluster.Age(50 * time.Minute)
	w.restart(keepConfig, limits)
	return w
}

// timeOut has a session's job reach its time limit.
func (w *world) timeOut(s api.Session) {
	w.t.Helper()
	if err := w.cluster.TimeOut(s.Job.ID); err != nil {
		w.t.Fatal(err)
	}
}

func followed(s api.Session) bool { return s.Next != nil }

func states(jobs []lab.Job) string {
	var list []string
	for _, j := range jobs {
		list = append(list, j.State)
	}
	return strings.Join(list, " ")
}

func TestKeepMovesThePageThroughTwoEndsAndStopsAtItsLimitForADay(t *testing.T) {
	w := keepWorld(t, func(l *session.Limits) { l.KeepPerDay = 2 })
	first := w.up()
	w.until("followed by the second job", followed)
	w.timeOut(first)
	second := w.until("ready on the second job", func(s api.Session) bool { return ready(s) && s.Job.ID != first.Job.ID })
	w.until("followed by the third job", followed)
	w.timeOut(second)
	third := w.until("ready on the third job", func(s api.Session) bool { return ready(s) && s.Job.ID > second.Job.ID })
	if first.Local != second.Local || second.Local != third.Local {
		t.Errorf("the address moved: %s, %s, %s", first.Local, second.Local, third.Local)
	}
	if code := w.fetch(); code != 200 {
		t.Errorf("the page answers %d", code)
	}
	w.timeOut(third)
	w.until("ended", func(s api.Session) bool { return s.State == api.SessionEnded })
	if got := states(w.cluster.Jobs()); got != "TIMEOUT TIMEOUT TIMEOUT" {
		t.Errorf("jobs: %s", got)
	}
	runs, err := state.NewHistory(w.paths.History()).Runs()
	if err != nil || len(runs) != 3 || runs[0].Job.ID != first.Job.ID || runs[0].Job.State != api.JobTimeout {
		t.Errorf("history: %+v, %v", runs, err)
	}
}

func TestARestartedAgentDoesNotSubmitTheNextJobAgain(t *testing.T) {
	w := keepWorld(t, nil)
	w.up()
	before := w.until("followed by another", followed)
	w.stop()
	w.start()
	after := w.until("followed by the same", func(s api.Session) bool { return ready(s) && s.Next != nil })
	if after.Next.ID != before.Next.ID || len(w.cluster.Jobs()) != 2 {
		t.Errorf("next was %s, is %s; jobs: %s", before.Next.ID, after.Next.ID, states(w.cluster.Jobs()))
	}
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err != nil {
		t.Fatal(err)
	}
	for _, j := range w.cluster.Jobs() {
		if j.State == "PENDING" || j.State == "RUNNING" {
			t.Errorf("job %s is left %s after down --cancel", j.ID, j.State)
		}
	}
}

func TestARefusedNextJobIsSaidOnceAndTheSessionEnds(t *testing.T) {
	w := newWorld(t)
	w.cluster.Age(30 * time.Minute) // of an hour: the next job is due in 15 min
	w.restart(keepConfig, func(l *session.Limits) { l.KeepRetry = 50 * time.Millisecond })
	first := w.up()
	w.cluster.FailSubmit("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy", 1)
	if err := w.cluster.SetLimit(first.Job.ID, 40*time.Minute); err != nil { // now it is due
		t.Fatal(err)
	}
	said := 0
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		if e.Notice != nil && strings.Contains(e.Notice.Text, "accounting/QOS policy") && e.Notice.Kind == api.NoticeTimeLimit {
			if said++; said == 1 {
				time.AfterFunc(time.Second, func() { _ = w.cluster.TimeOut(first.Job.ID) }) // it is refused again and again until then
			}
		}
		if e.Session != nil && e.Session.State == api.SessionEnded {
			cancel()
		}
	})
	if said != 1 || len(w.cluster.Jobs()) != 1 {
		t.Errorf("said %d times; jobs: %s", said, states(w.cluster.Jobs()))
	}
}

func TestAnUpAfterTheNightStartsANewJobWithOneLogin(t *testing.T) {
	w := newWorld(t)
	first := w.up()
	logins := w.cluster.Logins()
	if err := w.cluster.Refuse(true); err != nil { // the lid is closed
		t.Fatal(err)
	}
	w.cluster.DropAll()
	w.until("reconnecting", func(s api.Session) bool { return s.State == api.SessionReconnecting })
	if err := w.cluster.KillJob(first.Job.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil { // the morning
		t.Fatal(err)
	}
	if err := w.cluster.Refuse(false); err != nil {
		t.Fatal(err)
	}
	second := w.until("ready again", ready)
	if second.Job.ID == first.Job.ID || second.Local != first.Local || len(w.cluster.Jobs()) != 2 {
		t.Errorf("job %s at %s, then %s at %s; jobs: %s", first.Job.ID, first.Local, second.Job.ID, second.Local, states(w.cluster.Jobs()))
	}
	if n := w.cluster.Logins() - logins; n != 1 {
		t.Errorf("it took %d logins", n)
	}
}

func TestAnExtensionShowsAtOnceOrIsRefusedInTheSchedulersWords(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	if _, err := w.client.Extend(t.Context(), "jupyter", time.Hour); err == nil || !strings.Contains(err.Error(), "Access/permission denied") {
		t.Errorf("err = %v", err)
	}
	w.cluster.AllowExtend(true)
	job, err := w.client.Extend(t.Context(), "jupyter", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got := job.End.Sub(before.Job.End); got != time.Hour {
		t.Errorf("the end moved by %v", got)
	}
	w.until("ready until then", func(s api.Session) bool { return ready(s) && s.Job.End.Equal(job.End) })
}

func TestARefreshTellsOfAnEndThatJustHappened(t *testing.T) {
	w := newWorld(t)
	w.restart(config, func(l *session.Limits) { l.Jobs.Query, l.Jobs.LogSettled = time.Hour, time.Hour })
	s := w.up()
	if err := w.cluster.KillJob(s.Job.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		st, err := w.client.Refresh(ctx, "jupyter")
		if err != nil {
			t.Fatal(err)
		}
		now, _ := st.Session("jupyter")
		if now.State == api.SessionEnded {
			if now.Job == nil || now.Job.State != api.JobFailed || !strings.Contains(now.Cause, "failed") {
				t.Errorf("%+v", now)
			}
			return
		}
		if w.cluster.Jobs()[0].State == "FAILED" && now.Job != nil && now.Job.State == api.JobFailed {
			t.Fatalf("the refreshed status says %s with a job that is over", now.State)
		}
	}
}

// laptop is another agent of the same person, with files of its own, at the same
// cluster.
func (w *world) laptop(config string) *world {
	w.t.Helper()
	paths := home.In(w.t.TempDir())
	w.t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(paths.Socket)) }) // it has too long a name to lie there
	other := &world{t: w.t, paths: paths, client: client.New(paths), cluster: w.cluster, limits: w.limits}
	other.write(paths.Config, config)
	other.start()
	return other
}

func TestTwoLaptopsThatKeepOneJobSubmitOneToFollowIt(t *testing.T) {
	w := newWorld(t)
	w.cluster.Age(30 * time.Minute) // of an hour: the next job is due in 15 min
	w.restart(keepConfig, func(l *session.Limits) { l.KeepPerDay = 1 })
	first := w.up()
	w.cluster.Age(0)
	other := w.laptop(strings.Replace(keepConfig, "submit ", "job = \"jupyterlab\"\nsubmit ", 1))
	if _, err := other.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	other.until("ready on the same job", ready)
	if err := w.cluster.SetLimit(first.Job.ID, 40*time.Minute); err != nil { // now it is due, on both laptops
		t.Fatal(err)
	}
	here, there := w.until("followed by another", followed), other.until("followed by another", followed)
	if there.Job == nil || there.Job.ID != first.Job.ID || here.Next.ID != there.Next.ID {
		t.Errorf("one laptop has job %s and next %s, the other %s and %s", here.Job.ID, here.Next.ID, there.Job.ID, there.Next.ID)
	}
	w.timeOut(first)
	moved := func(s api.Session) bool { return ready(s) && s.Job.ID == here.Next.ID }
	w.until("ready on the next job", moved)
	other.until("ready on the next job", moved)
	if n := len(w.cluster.Jobs()); n != 2 {
		t.Errorf("jobs: %s", states(w.cluster.Jobs()))
	}
}
