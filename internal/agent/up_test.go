package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/lab"
)

// oneAnswer is a scheduler that is queried once, before the submission.
func oneAnswer(l *session.Limits) {
	l.Jobs.Query, l.Jobs.QueryMin, l.Jobs.QueryAfterSubmit = time.Hour, time.Hour, 0
}

func TestUpToPage(t *testing.T) {
	t.Parallel()
	t.Run("is ready by the log before the scheduler says that the job runs", func(t *testing.T) {
		for _, dialect := range []string{lab.Slurm, lab.PBS} {
			t.Run(dialect, func(t *testing.T) {
				starts := make(chan struct{})
				w := newWorldWith(t, lab.Options{Dialect: dialect, QueueFor: time.Hour, Starts: starts})
				w.restart(config+"job = \"practice\"\n", oneAnswer)
				w.bringUp()
				w.until("queued", func(s api.Session) bool { return s.State == api.SessionQueued })
				w.after(func() error {
					starts <- struct{}{}
					return nil
				}, func(e api.Event) bool { return e.Session != nil && e.Session.State == api.SessionStarting })
				if s := w.until("ready", ready); s.Job.State != api.JobRunning || s.Job.Node != "" {
					t.Errorf("the job is %+v", s.Job)
				}
				w.opens()
				w.restart(config+"job = \"practice\"\n", nil)
				if s := w.until("ready, with the node", func(s api.Session) bool { return ready(s) && s.Job.Node != "" }); len(w.cluster.Jobs()) != 1 {
					t.Errorf("there are %d jobs; the session's is %s", len(w.cluster.Jobs()), s.Job.ID)
				}
			})
		}
	})
	t.Run("is not ready by a log without the job's number", func(t *testing.T) {
		w := newWorldWith(t, lab.Options{QueueFor: time.Hour})
		w.restart(config+"job = \"practice\"\n", oneAnswer)
		_, port := notebook(t, firstToken)
		w.script("#!/bin/sh\n#SBATCH --output=out.log\nsleep 600\n")
		w.bringUp()
		w.until("queued", func(s api.Session) bool { return s.State == api.SessionQueued })
		w.appendTo("out.log", announcement("cn01", port, firstToken)) // by another job
		if s := w.until("that far in its log", func(s api.Session) bool { return s.Endpoint != nil }); s.State != api.SessionQueued {
			t.Errorf("it is %s: %s", s.State, s.Cause)
		}
	})
	t.Run("adopts and submits nothing, and an open tab comes back", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		w.opens() // in a tab
		reconnect := func(meanwhile func()) {
			t.Helper()
			w.down(false)
			meanwhile()
			must(t, w.upWith(api.UpRequest{Session: "jupyter", Adopt: true}))
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
			must(t, w.cluster.KillJob(before.Job.ID))
			must(t, w.cluster.Await(t.Context(), before.Job.ID)) // one that is about to end is not told of as over
		})
		s := w.until("ended", ended)
		if !strings.HasPrefix(s.Cause, "job "+before.Job.ID+" ") || strings.Contains(s.Cause, "no longer exists") || !strings.Contains(s.Hint, "`tunctl up jupyter` starts a new one") {
			t.Errorf("%q, %q", s.Cause, s.Hint)
		}
		w.hasJobs(1)
	})
	t.Run("that fails before a submission leaves no job to look for", func(t *testing.T) {
		w := newWorld(t)
		w.restart(strings.Replace(config, "~/jupyter.sh", "local:/nonexistent/jupyter.sh", 1), nil)
		for range 2 {
			w.bringUp()
			w.until("failed", failed)
			w.down(true)
		}
	})
	// A command gives up when no job is there and none may be submitted any more.
	t.Run("has its permission until its job is shown", func(t *testing.T) {
		w := newWorld(t)
		permitted, wrong := false, make(chan api.Session, 1)
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			_ = w.client.Watch(ctx, api.AnswersNone, "up", func(e api.Event) { // it ends by our cancel
				if s := e.Session; s != nil {
					permitted = permitted || s.MaySubmit
					if permitted && !s.MaySubmit && s.Job == nil {
						select {
						case wrong <- *s:
						default:
						}
					}
				}
			})
		}()
		reentered := make(chan struct{})
		go func() {
			defer close(reentered)
			for ctx.Err() == nil {
				w.agent.Reenter("jupyter") // as news of the host have it
			}
		}()
		w.up()
		cancel()
		<-watched
		<-reentered
		select {
		case s := <-wrong:
			t.Errorf("it is %s without a job and without a permission", s.State)
		default:
		}
	})
	t.Run("while an end is seen to starts another job", func(t *testing.T) {
		w := newWorld(t)
		first := w.up().Job.ID
		w.startsAnother(first, func() {
			must(t, w.cluster.KillJob(first))
		})
		w.until("ready", ready)
	})
	t.Run("while a failure is seen to tries once more", func(t *testing.T) {
		w := newWorld(t)
		w.script("#!/bin/sh\n#SBATCH --job-name=broken\nexit 3\n")
		w.bringUp()
		first := w.until("submitted", func(s api.Session) bool { return s.Job != nil }).Job.ID
		w.startsAnother(first, func() {})
		w.until("failed", failed)
		w.hasJobs(2)
	})
	t.Run("after a cancel elsewhere does not call the old job ready", func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		w.limits = func(l *session.Limits) { l.Jobs.Query = time.Hour } // the agent does not notice by itself
		w.start()
		before := w.up()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		must(t, w.cluster.KillJob(before.Job.ID))
		must(t, w.cluster.Await(ctx, before.Job.ID))
		answer, err := w.client.Up(ctx, api.UpRequest{Session: "jupyter"})
		must(t, err)
		if ready(answer.Session) {
			t.Errorf("job %s is over, and the session is %s", before.Job.ID, answer.Session.State)
		}
		w.until("ready with another job", func(s api.Session) bool { return ready(s) && s.Job.ID != before.Job.ID })
	})
	t.Run("of a session that serves changes nothing", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		answer, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"})
		must(t, err)
		if now := answer.Session; !ready(now) || now.Job.ID != before.Job.ID || !now.Since.Equal(before.Since) {
			t.Errorf("before %+v, after %+v", before, now)
		}
		w.hasJobs(1)
	})
	t.Run("that is left at once says nothing about the page", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		w.cluster.Pause() // the agent waits for the page, and the user does not
		brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := w.client.Up(brief, api.UpRequest{Session: "jupyter"}); err == nil {
			t.Fatal("the page responded over a link that is paused")
		}
		w.cluster.Resume()
		answer, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"})
		must(t, err)
		if now := answer.Session; !ready(now) || !now.Since.Equal(before.Since) {
			t.Errorf("before %+v, after %+v", before, now)
		}
	})
}

// startsAnother has the user ask again as soon as the session's first job is known to be
// over, and fails unless another is submitted.
func (w *world) startsAnother(first string, end func()) {
	w.t.Helper()
	w.cluster.Slow(100 * time.Millisecond) // so that the end of its log is being read
	end()
	w.until("over", func(s api.Session) bool { return s.Job != nil && s.Job.State.Ended() })
	w.bringUp()
	w.until("with another job", func(s api.Session) bool { return s.Job != nil && s.Job.ID != first })
}

func TestJobEnd(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		end   func(s api.Session) error
		asked bool
	}{
		"by tunctl cancel is asked for": {func(s api.Session) error { _, err := w.client.Cancel(t.Context(), s.Host, s.Job.ID); return err }, true},
		"by another is not":             {func(s api.Session) error { return w.cluster.KillJob(s.Job.ID) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.up()
			is := func(e api.Event) bool { return e.Session != nil && ended(*e.Session) }
			if s := w.after(func() error { return tt.end(s) }, is).Session; s.Asked != tt.asked {
				t.Errorf("asked for: %t, want %t: %s", s.Asked, tt.asked, s.Cause)
			}
		})
	}
}
