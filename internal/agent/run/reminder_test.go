package run

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/ownertest"
)

// newReminder is a run with reminders of a session that nobody brings up.
func newReminder(t *testing.T) (*Run, *ownertest.Owner) {
	t.Helper()
	r, owner := newRun(t)
	owner.Known.Remind = []time.Duration{30 * time.Minute, 10 * time.Minute, 2 * time.Minute}
	r.limits.Remind = owner.Known.Remind
	return r, owner
}

func TestReminderFitsANotification(t *testing.T) {
	r, owner := newReminder(t)
	now := time.Now()
	midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.Local)
	ending := api.Job{ID: "48213345", State: api.JobRunning, Start: midnight.Add(-2 * time.Hour), End: midnight.Add(8 * time.Minute)} // told with the day
	r.remind(ending, midnight.Add(-20*time.Minute))
	texts := owner.Told()
	if len(texts) != 1 {
		t.Fatalf("told %q", texts)
	}
	if title, body, ok := strings.Cut(texts[0], ": "); !ok || len([]rune(title)) > 40 || body == "" || strings.Contains(texts[0], "`") {
		t.Errorf("%q", texts[0])
	}
}

func TestAPersonIsToldThreeTimesBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, owner := newReminder(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.serveReminders(ctx)

		job := api.Job{ID: "7", State: api.JobRunning, Start: time.Now(), End: time.Now().Add(2 * time.Hour)}
		owner.SetJob(t, job)
		r.limited <- job
		for _, step := range []struct {
			after time.Duration
			want  string // in the notice; none if empty
			near  bool
		}{
			{89 * time.Minute, "", false},
			{time.Minute, "jupyter ends at ", true},
			{19 * time.Minute, "", true},
			{time.Minute, "jupyter ends at ", true},
			{8 * time.Minute, "jupyter ends at ", true},
			{2 * time.Minute, "", false},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			got := owner.Told()
			if step.want == "" && len(got) > 0 || step.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], step.want)) {
				t.Errorf("%v later: %q, want %q", step.after, got, step.want)
			}
			st := owner.Derived()
			if near := strings.Contains(st.Cause, " ends at "); near != step.near || st.State != api.SessionReady {
				t.Errorf("%v later the session is %s: %q", step.after, st.State, st.Cause)
			}
		}
	})
}

func TestAnExtendedJobIsToldOfAgainAndTheOldWarningGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, owner := newReminder(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.serveReminders(ctx)
		tell := func(left time.Duration) []string {
			job := api.Job{ID: "7", State: api.JobRunning, Start: time.Now().Add(-5 * time.Hour), End: time.Now().Add(left)}
			owner.SetJob(t, job)
			r.limited <- job
			synctest.Wait()
			return owner.Told()
		}
		if got := tell(5 * time.Minute); len(got) != 1 {
			t.Errorf("five minutes before the end: %q", got)
		}
		if got := tell(5*time.Minute + 20*time.Second); len(got) != 0 {
			t.Errorf("an end that moved by seconds is told again: %q", got)
		}
		if got := tell(time.Hour); len(got) != 0 || owner.Derived().Cause != "" {
			t.Errorf("extended by an hour: %q, cause %q", got, owner.Derived().Cause)
		}
		if got := tell(9 * time.Minute); len(got) != 1 {
			t.Errorf("before the new end: %q", got)
		}
	})
}

func TestALaptopThatSleptThroughAMarkIsToldWithinAMinute(t *testing.T) {
	// A sleeping laptop's timers stand still while the clock goes on, which to a timer
	// looks like an end that came nearer by itself.
	synctest.Test(t, func(t *testing.T) {
		r, owner := newReminder(t)
		start := time.Now()
		job := api.Job{ID: "7", State: api.JobRunning, Start: start, End: start.Add(8 * time.Hour)}
		owner.SetJob(t, job)
		r.remind(job, start)
		r.remind(job, start.Add(8*time.Hour-5*time.Minute)) // the first look after the wake
		if got := owner.Told(); len(got) != 1 || !strings.Contains(got[0], "ends at ") {
			t.Errorf("after the wake: %q", got)
		}
	})
}
