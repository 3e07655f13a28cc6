package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/wait"
)

// unknownHost has the cluster's host key be unknown, so that a login has to ask a
// person; known takes that back.
func (w *world) unknownHost() (known func()) {
	w.t.Helper()
	text, err := os.ReadFile(w.cluster.SSHConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	var file string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && strings.EqualFold(f[0], "UserKnownHostsFile") {
			file = strings.Trim(f[1], `"`)
		}
	}
	keys, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(w.cluster.SSHConfig(), strings.Replace(string(text), "StrictHostKeyChecking yes", "StrictHostKeyChecking ask", 1))
	w.write(file, "")
	return func() { w.write(file, string(keys)) }
}

// wait watches as a command does that waits; the returned function ends it.
func (w *world) wait(waiter string) (leave func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	began, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		first := true
		_ = w.client.Watch(ctx, api.AnswersNone, waiter, func(api.Event) { // it ends by our cancel
			if first {
				close(began)
				first = false
			}
		})
	}()
	leave = func() { cancel(); <-gone }
	w.t.Cleanup(leave)
	select {
	case <-began:
	case <-time.After(patience):
		w.t.Fatal("the watch tells nothing")
	}
	return leave
}

func needsLogin(s api.Session) bool { return s.State == api.SessionNeedsLogin }

// loginSubmitsNothing logs in for something else and fails unless that starts no job.
func (w *world) loginSubmitsNothing() {
	w.t.Helper()
	lapsed := w.until("without permission", func(s api.Session) bool { return needsLogin(s) && !s.MaySubmit })
	if !strings.Contains(lapsed.Hint, "`tunctl up jupyter` does both") {
		w.t.Errorf("the hint is %q", lapsed.Hint)
	}
	if _, err := w.client.Login(w.t.Context(), "practice"); err != nil {
		w.t.Fatal(err)
	}
	ended := w.until("settled", func(s api.Session) bool {
		return ready(s) || s.State == api.SessionEnded || s.State == api.SessionFailed
	})
	if ended.State != api.SessionEnded || len(w.cluster.Jobs()) != 0 {
		w.t.Errorf("the session is %s: %s; jobs: %q", ended.State, ended.Cause, states(w.cluster.Jobs()))
	}
}

func TestALoginAfterItsCommandEndedSubmitsNothing(t *testing.T) {
	w := newWorld(t)
	known := w.unknownHost()
	leave := w.wait("monday")
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter", Waiter: "monday"}); err != nil {
		t.Fatal(err)
	}
	w.until("in need of a login, and permitted", func(s api.Session) bool { return needsLogin(s) && s.MaySubmit })
	leave()
	known()
	w.loginSubmitsNothing()
	w.up() // a person's up does
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("jobs: %q", states(w.cluster.Jobs()))
	}
}

func TestOneCommandsEndLeavesTheOthersPermission(t *testing.T) {
	w := newWorld(t)
	known := w.unknownHost()
	leave := w.wait("one")
	w.wait("other")
	for _, waiter := range []string{"one", "other"} {
		if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter", Waiter: waiter}); err != nil {
			t.Fatal(err)
		}
	}
	w.until("in need of a login", needsLogin)
	leave()
	known()
	if _, err := w.client.Login(t.Context(), "practice"); err != nil {
		t.Fatal(err)
	}
	w.until("ready", ready)
}

// A command gives up when no job is there and none may be submitted any more.
func TestAPermissionEndsNotBeforeItsJobIsShown(t *testing.T) {
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
}

func TestWhoDoesNotWaitCannotSayThatTheyDo(t *testing.T) {
	w := newWorld(t)
	known := w.unknownHost()
	_, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter", Waiter: "nobody"})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeUsage {
		t.Errorf("err = %v", err)
	}
	w.wait("somebody")()
	_, err = w.client.Up(t.Context(), api.UpRequest{Session: "jupyter", Waiter: "somebody"})
	if err == nil { // the agent had not noticed yet that somebody left
		w.until("in need of a login", needsLogin)
		known()
		w.loginSubmitsNothing()
	} else if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeUsage {
		t.Errorf("err = %v", err)
	}
	if jobs := w.cluster.Jobs(); len(jobs) != 0 {
		t.Errorf("jobs: %q", states(jobs))
	}
}

func TestAnEndedCommandLeavesItsJobAndTakesNothingDown(t *testing.T) {
	w := newWorld(t)
	leave := w.wait("brief")
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter", Waiter: "brief"}); err != nil {
		t.Fatal(err)
	}
	w.until("submitted", func(s api.Session) bool { return s.Job != nil })
	leave()
	w.until("ready", ready)
}

func TestAnUpWhileAnEndIsSeenToStartsAnotherJob(t *testing.T) {
	w := newWorld(t)
	first := w.up().Job.ID
	w.startsAnother(first, func() {
		if err := w.cluster.KillJob(first); err != nil {
			t.Fatal(err)
		}
	})
	w.until("ready", ready)
}

func TestAJobThatEndsAtOnceIsSubmittedOnce(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), "#!/bin/sh\n#SBATCH --job-name=broken\nexit 3\n")
	w.cluster.Slow(100 * time.Millisecond) // so that the answer to its submission is on its way
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is submitted", func() bool { return len(w.cluster.Jobs()) > 0 })
	w.cluster.Pause()
	if err := w.cluster.Await(t.Context(), w.cluster.Jobs()[0].ID); err != nil {
		t.Fatal(err)
	}
	w.cluster.Slow(0)
	w.cluster.Resume()
	w.until("failed", failed)
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("jobs: %q", states(w.cluster.Jobs()))
	}
}

func TestAnUpWhileAFailureIsSeenToTriesOnceMore(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), "#!/bin/sh\n#SBATCH --job-name=broken\nexit 3\n")
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	first := w.until("submitted", func(s api.Session) bool { return s.Job != nil }).Job.ID
	w.startsAnother(first, func() {})
	w.until("failed", failed)
	if n := len(w.cluster.Jobs()); n != 2 {
		t.Errorf("one more was asked for; jobs: %q", states(w.cluster.Jobs()))
	}
}

// startsAnother has a person ask again as soon as the session's first job is known to be
// over, and fails unless another is submitted.
func (w *world) startsAnother(first string, end func()) {
	w.t.Helper()
	w.cluster.Slow(100 * time.Millisecond) // so that the end of its log is being read
	end()
	w.until("over", func(s api.Session) bool { return s.Job != nil && s.Job.State.Ended() })
	if _, err := w.client.Up(w.t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		w.t.Fatal(err)
	}
	w.until("with another job", func(s api.Session) bool { return s.Job != nil && s.Job.ID != first })
}
