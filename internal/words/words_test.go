package words

import (
	"fmt"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestHeld(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	waits := func(since, streams int) api.Held {
		return api.Held{Since: at(since), Streams: streams, Waiting: 10 * streams}
	}
	continued := func(since, until int) api.Held { return api.Held{Since: at(since), Until: at(until), Streams: 1} }
	lost := func(since, until int) api.Held {
		return api.Held{Since: at(since), Until: at(until), Lost: 2, Cause: "why"}
	}
	const loss = "2 streams inside the job ended after 3 min without a connection: why"
	for name, tt := range map[string]struct {
		a, b api.Held
		want string // by minutes: what is said of it, and of an earlier loss
	}{
		"nothing":                               {api.Held{}, api.Held{}, " since 0"},
		"one":                                   {waits(5, 2), api.Held{}, "held: 2 streams, 20 B waiting since 5"},
		"both wait":                             {waits(5, 2), waits(3, 1), "held: 3 streams, 30 B waiting since 3"},
		"one waits":                             {continued(1, 2), waits(5, 1), "held: 1 stream, 10 B waiting since 5"},
		"one waits, and the other lost":         {lost(4, 7), waits(5, 1), "held: 1 stream, 10 B waiting since 5, earlier " + loss},
		"one after the other":                   {continued(5, 7), continued(1, 3), "continued after 2 min; nothing was lost since 5"},
		"at the same time":                      {continued(5, 7), continued(6, 9), "continued after 4 min; nothing was lost since 5"},
		"at the same time, and one has lost":    {continued(5, 7), lost(5, 8), loss + " since 5"},
		"an earlier loss is not hidden":         {lost(1, 4), continued(5, 7), "continued after 2 min; nothing was lost since 5, earlier " + loss},
		"of two earlier losses the last counts": {api.Held{Since: at(9), Streams: 1, Earlier: &api.Held{Until: at(1)}}, lost(1, 4), "held: 1 stream, 0 B waiting since 9, earlier " + loss},
	} {
		for _, h := range []api.Held{tt.a.Merge(tt.b), tt.b.Merge(tt.a)} {
			got := HeldOver(h)
			if !h.IsOver() {
				got = heldText(&h)
			}
			if h.Since.IsZero() {
				h.Since = at(0)
			}
			if got += fmt.Sprint(" since ", h.Since.Unix()/60); h.Earlier != nil {
				got += ", earlier " + HeldOver(*h.Earlier)
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		}
	}
}

func TestSessionEnding(t *testing.T) {
	for state, want := range map[api.SessionState]string{
		api.SessionReady: "ending", api.SessionReconnecting: "ending", api.SessionDown: "ending", api.SessionFailed: "failed", api.SessionNeedsLogin: "login needed",
	} {
		if got := Session(api.Session{State: state, Job: &api.Job{ID: "7", State: api.JobCompleting}}, time.Now()); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

func TestSentence(t *testing.T) {
	for cause, want := range map[string]string{
		"":                                   "",
		"no network":                         "No network.",
		"narval refused the login":           "narval refused the login.",
		"the job failed; its log ends:\nout": "The job failed; its log ends:\nout",
	} {
		if got := Sentence(cause, "narval", "jupyter"); got != want {
			t.Errorf("%q: %q, want %q", cause, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 12_345: "12 kB", 999_600: "1.0 MB", 5_000_000_000: "5.0 GB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestSession(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	job := &api.Job{State: api.JobRunning, End: now.Add(time.Hour)}
	over := &api.Job{State: api.JobRunning, End: now.Add(-time.Hour)}
	for want, s := range map[string]api.Session{
		"disconnected": {State: api.SessionDown, Job: job},
		"down":         {State: api.SessionDown, Job: over},
		"login needed": {State: api.SessionNeedsLogin},
		"finding job":  {State: api.SessionSubmitting},
		"submitting":   {State: api.SessionSubmitting, MaySubmit: true},
		"ready":        {State: api.SessionReady, Job: job},
	} {
		if got := Session(s, now); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestIsCharged(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	job := func(state api.JobState, end time.Duration) *api.Job {
		return &api.Job{ID: "1", State: state, End: now.Add(end)}
	}
	other := []api.Job{{ID: "2", State: api.JobRunning}}
	for name, tt := range map[string]struct {
		s    api.Session
		want string // the job
	}{
		"its job runs":              {api.Session{State: api.SessionDown, Job: job(api.JobRunning, time.Hour)}, "1"},
		"its job was not seen":      {api.Session{State: api.SessionDown, Job: job(api.JobUnknown, time.Hour)}, "1"},
		"its time limit has passed": {api.Session{State: api.SessionDown, Job: job(api.JobRunning, -time.Hour)}, ""},
		"it waits":                  {api.Session{State: api.SessionDown, Job: job(api.JobQueued, time.Hour)}, ""},
		"it is about to end":        {api.Session{State: api.SessionDown, Job: job(api.JobCompleting, time.Hour)}, ""},
		"it has ended":              {api.Session{State: api.SessionDown, Job: job(api.JobFinished, time.Hour)}, ""},
		"an earlier one runs":       {api.Session{State: api.SessionDown, Job: job(api.JobFinished, 0), Others: other}, "2"},
		"it waits, another runs":    {api.Session{State: api.SessionDown, Job: job(api.JobQueued, time.Hour), Others: other}, "2"},
		"the session is up":         {api.Session{State: api.SessionReady, Job: job(api.JobRunning, time.Hour)}, ""},
		"the session has ended":     {api.Session{State: api.SessionEnded, Job: job(api.JobFinished, 0), Others: other}, ""},
	} {
		if got, found := LeftRunning(tt.s, now); got.ID != tt.want || found != IsCharged(tt.s, now) || found != (tt.want != "") {
			t.Errorf("%s: job %q, %v", name, got.ID, found)
		}
	}
}

func TestHost(t *testing.T) {
	for want, h := range map[string]api.Host{
		"waiting for your answer": {State: api.HostConnecting, Asking: "password"},
		"not responding":          {State: api.HostUp, NotRespondingSince: time.Unix(1, 0)},
		"connected":               {State: api.HostUp},
		"not connected":           {State: api.HostDown},
		"login needed":            {State: api.HostNeedsLogin},
		"blocked":                 {State: api.HostBlocked},
	} {
		if got := Host(h); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
}
