package facts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// pageFacts are situations in which a browser sees the waiting page.
func pageFacts(now time.Time) map[string]Facts {
	up := api.Host{Alias: "narval", State: api.HostUp}
	job := func(state api.JobState) *api.Job {
		return &api.Job{ID: "4242", State: state, Node: "nc10", Submitted: now.Add(-25 * time.Minute)}
	}
	queued, never, held, starting := job(api.JobQueued), job(api.JobQueued), job(api.JobHeld), job(api.JobRunning)
	starting.Start = now.Add(-time.Minute)
	never.Hint = api.HintNeverStarts + ": it asks for too much"
	queued.Reason, queued.Hint, queued.ExpectedStart = "Priority", "other jobs come first", now.Add(95*time.Minute)
	held.Reason, held.Hint = "JobHeldUser", "held by yourself: release it with scontrol release"
	all := map[string]Facts{
		"connecting": {Host: api.Host{Alias: "narval", State: api.HostConnecting, Cause: "logging in"}},
		"needs-login": {Host: api.Host{
			Alias: "narval", State: api.HostNeedsLogin, Cause: "narval needs you: it asks for a one-time code",
			Hint: "run `tunctl login narval`",
		}},
		"logged-out":   {Host: api.Host{Alias: "narval", State: api.HostDown}, Served: true},
		"submitting":   {Host: up, NeedsJob: true, Submitting: true, Doing: Doing{Text: "asking the scheduler"}},
		"queued":       {Host: up, NeedsJob: true, Waits: "earlier jobs like this waited 5 to 40 min here (8 runs)", Saved: saved(queued, nil)},
		"never":        {Host: up, NeedsJob: true, Saved: saved(never, nil)},
		"held":         {Host: up, NeedsJob: true, Saved: saved(held, nil)},
		"starting":     {Host: up, NeedsJob: true, Doing: Doing{Text: "waiting for the server's address in the log"}, Saved: saved(starting, nil)},
		"silent":       {Host: up, NeedsJob: true, Served: true, Doing: Doing{Text: "asking the server"}, Saved: saved(job(api.JobRunning), nil)},
		"lapsed":       {Host: api.Host{Alias: "narval", State: api.HostConnecting, Cause: "logging in"}, NeedsJob: true, Lapsed: true},
		"reconnecting": {Host: api.Host{Alias: "narval", State: api.HostWaiting, Cause: "no network"}, NeedsJob: true, Served: true, Saved: saved(job(api.JobRunning), nil)},
		"stalled": {
			Host:     api.Host{Alias: "narval", State: api.HostUp, NotRespondingSince: now.Add(-time.Minute), Cause: "narval is not responding since 14:05:10"},
			NeedsJob: true, Served: true, Answers: true, Saved: saved(job(api.JobRunning), nil),
		},
		"blocked": {Host: api.Host{
			Alias: "narval", State: api.HostBlocked, Code: api.CodeAuth, Cause: "narval refused the login twice",
			Hint: "check your password, then `tunctl login narval`",
		}},
		"ended": {Host: up, NeedsJob: true, Saved: saved(nil, &api.Error{
			Code: api.CodeJobEnded, Message: "job 4242 reached its time limit at 14:05",
			Hint: "`tunctl up jupyter` starts a new one; `tunctl logs jupyter` shows what it wrote",
		})},
		"failed": {Host: up, NeedsJob: true, Saved: saved(nil, &api.Error{
			Code: api.CodeFailed,
			Message: "job 4242 failed with exit status 127 at 14:05 before it served anything; its log ends with:\n" +
				"Loading module python/3.11\n/var/spool/slurmd/job4242/slurm_script: line 12: jupyter: command not found\nsrun: error: nc10: task 0: Exited with exit code 127",
			Hint: "fix the job script, then `tunctl up jupyter`; `tunctl logs jupyter` shows the whole log",
		})},
		"down": {},
	}
	for name, f := range all {
		f.Name, f.Started, f.Saved.Wanted = "jupyter", name != "down", name != "down"
		all[name] = f
	}
	return all
}

func TestTheWaitingPageNamesEveryStateInWords(t *testing.T) {
	now := time.Now()
	want := map[string]struct {
		kind  forward.ReasonKind
		title string
		tray  string
	}{
		"connecting":   {forward.ReasonProgress, "Connecting to narval", ""},
		"needs-login":  {forward.ReasonAttention, "Log in to continue", "Log in to narval…"},
		"logged-out":   {forward.ReasonAttention, "Log in to continue", "Log in to narval…"},
		"submitting":   {forward.ReasonProgress, "Submitting the job", ""},
		"queued":       {forward.ReasonProgress, "Waiting in the queue", ""},
		"never":        {forward.ReasonAttention, "The job will not start", ""},
		"held":         {forward.ReasonAttention, "The job is on hold", ""},
		"starting":     {forward.ReasonProgress, "Your notebook is starting", ""},
		"reconnecting": {forward.ReasonProgress, "Reconnecting to narval", ""},
		"stalled":      {forward.ReasonProgress, "narval is not responding", ""},
		"silent":       {forward.ReasonProgress, "Reconnecting to your notebook", ""},
		"lapsed":       {forward.ReasonAttention, "Start your notebook to continue", "jupyter ▸ Start"},
		"blocked":      {forward.ReasonTrouble, "Cannot connect to narval", "narval ▸ Log in…"},
		"ended":        {forward.ReasonAttention, "Your notebook has ended", "jupyter ▸ Start"},
		"failed":       {forward.ReasonTrouble, "Your notebook could not start", "jupyter ▸ Start"},
		"down":         {forward.ReasonAttention, "jupyter is not running", "jupyter ▸ Start"},
	}
	for name, f := range pageFacts(now) {
		r := f.Reason(f.Derive(now), now, now)
		if w := want[name]; r.Kind != w.kind || r.Title != w.title || r.Tray != w.tray {
			t.Errorf("%s: %q %q %q, want %+v", name, r.Kind, r.Title, r.Tray, w)
		}
	}
}

func TestTheWaitingPageShowsTheStepsToThePage(t *testing.T) {
	now := time.Now()
	since := now.Add(-12 * time.Second)
	for name, want := range map[string]string{
		"submitting":   "✓ Connected to narval, … Submitting the job 12 s, Queue, Start",
		"queued":       "✓ Connected to narval, ✓ Job 4242, … Waiting in the queue 25 min, Start",
		"held":         "✓ Connected to narval, ✓ Job 4242, … Waiting in the queue 25 min, Start",
		"starting":     "✓ Connected to narval, ✓ Job 4242, ✓ Queue 24 min, … Starting on nc10 1 min",
		"needs-login":  "… Login to narval 12 s, Job, Queue, Start",
		"login, queue": "… Login to narval 12 s, ✓ Job 4242, … Waiting in the queue 25 min, Start",
		"reconnecting": "",
		"failed":       "",
	} {
		f := pageFacts(now)[name]
		if name == "needs-login" {
			f.NeedsJob = true
		}
		if name == "login, queue" {
			f = pageFacts(now)["queued"]
			f.Host = pageFacts(now)["needs-login"].Host
		}
		var got []string
		for _, s := range f.Reason(f.Derive(now), since, now).Steps {
			switch s.State {
			case forward.StepDone:
				s.Text = "✓ " + s.Text
				if s.Took > 0 {
					s.Text += " " + api.DurationText(s.Took)
				}
			case forward.StepCurrent:
				s.Text = "… " + s.Text + " " + api.DurationText(now.Sub(s.Since))
			case forward.StepComing:
			}
			got = append(got, s.Text)
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %q, want %q", name, text, want)
		}
	}
}

func TestTheQueuesPageSaysWhyAndHowLong(t *testing.T) {
	now := time.Now()
	f := pageFacts(now)["queued"]
	facts := map[string]string{}
	for _, x := range f.Reason(f.Derive(now), now, now).Facts {
		facts[x.Name] = x.Value
	}
	for name, want := range map[string]string{
		"Why": "Other jobs come first", "Expected start": ", in 1 h 35 min",
		"Earlier waits": "Earlier jobs like this waited 5 to 40 min here (8 runs)",
	} {
		if !strings.HasSuffix(facts[name], want) {
			t.Errorf("%s: %q, want %q", name, facts[name], want)
		}
	}
	f = pageFacts(now)["never"]
	if r := f.Reason(f.Derive(now), now, now); strings.Contains(r.Text, "keeps its place") || !strings.Contains(r.Text, "it asks for too much") || !strings.Contains(r.Hint, "--cancel") {
		t.Errorf("of a job that never starts: %+v", r)
	}
	f = pageFacts(now)["queued"]
	f.Job().ExpectedStart = time.Time{}
	if r := f.Reason(f.Derive(now), now, now); r.Facts[1].Value != "Not known yet" {
		t.Errorf("without an expected start: %+v", r.Facts)
	}
}

func TestTheWaitingPageShowsTheLinkOfALogin(t *testing.T) {
	const link = "https://iam.example.org/device?user_code=ABCD"
	f := Facts{Name: "jupyter", Host: api.Host{Alias: "narval", State: api.HostConnecting, Cause: api.AskedElsewhere, Links: []string{link}}}
	r := f.Reason(Derived{State: api.SessionConnecting, Cause: api.AskedElsewhere}, time.Time{}, time.Now())
	if !slices.Contains(r.Facts, forward.Fact{Name: "Page of the login", Value: link}) {
		t.Errorf("%+v", r)
	}
}
