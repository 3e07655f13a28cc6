package show

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// busy is a status with everything in it.
func busy(now time.Time) api.Status {
	return api.Status{
		Agent: &api.Agent{},
		Hosts: []api.Host{
			{Alias: "narval", State: api.HostUp, Since: now.Add(-3 * time.Hour), User: "alice", Hostname: "narval.alliancecan.ca", LoginNode: "narval3.narval.calcul.quebec", Auth: "publickey,keyboard-interactive", RTTMs: 91.4},
			{Alias: "m3", State: api.HostNeedsLogin, Cause: "m3 needs you", User: "alice", Hostname: "m3.massive.org.au"},
		},
		Sessions: []api.Session{
			{
				Name: "jupyter", Host: "narval", State: api.SessionReady, URL: "http://localhost:8888/lab", Local: "127.0.0.1:8888",
				Cause: "job 48213345 ends at 16:05: save your work", Hint: "job 48300012 takes over, and the page moves with it",
				Job:  &api.Job{ID: "48213345", State: api.JobRunning, Node: "nc10214.narval.calcul.quebec", Start: now, End: now.Add(9 * time.Minute)},
				Next: &api.Job{ID: "48300012", State: api.JobQueued, ExpectedStart: now.Add(time.Hour)},
				Forwards: []api.Forward{
					{Listen: "127.0.0.1:8888", BytesIn: 123_456_789, BytesOut: 9_876},
					{Listen: "127.0.0.1:6006", Target: "localhost:6006"},
					{Listen: "127.0.0.1:40123", Target: "nc10214:8787", Endpoint: "dask"},
					{Kind: api.ForwardDynamic, Listen: "127.0.0.1:1080"},
				},
				Endpoints: []api.NamedEndpoint{{Name: "dask", URL: "http://localhost:40123/status"}, {Name: "ray"}},
			},
			{Name: "a-session-with-quite-a-long-name", Host: "m3", State: api.SessionNeedsLogin, Cause: strings.Repeat("m3 needs you: it asks for a code. ", 5), Hint: "run `tunctl login m3`"},
			{Name: "db", Host: "narval", State: api.SessionReady, Forwards: []api.Forward{{Listen: "127.0.0.1:5432", Target: "db.int:5432", BytesIn: 12}}},
		},
	}
}

func TestTheStatusFitsEightyColumns(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 56, 0, 0, time.Local)
	for _, width := range []int{60, 80, 132} {
		text := Status(term.Layout{Width: width}, busy(now), false, now)
		for line := range strings.Lines(text) {
			if n := term.TextWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns in %d: %s", n, width, line)
			}
		}
	}
	text := Status(term.Layout{Width: 80}, busy(now), false, now)
	for _, want := range []string{
		"SESSION", "9 min", "↓123 MB ↑9.9 kB", "  http://localhost:8888/lab\n", "next: job 48300012 is queued, expected start 16:56",
		"  127.0.0.1:6006 → localhost:6006 on nc10214.narval.calcul.quebec\n", "  127.0.0.1:1080 is a SOCKS proxy on nc10214",
		"  dask: http://localhost:40123/status\n", "  ray: `tunctl open jupyter --which ray`\n",
		"→ run `tunctl login m3`", "127.0.0.1:5432 → db.int:5432 through narval", "91.4 ms",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	for _, line := range []string{"  127.0.0.1:8888\n", "  127.0.0.1:40123 → nc10214:8787"} {
		if strings.Contains(text, line) {
			t.Errorf("%q, which has an address already, is in:\n%s", line, text)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + text)
	}
}

func TestStatus(t *testing.T) {
	lost := func(name string) api.Session {
		return api.Session{Name: name, Host: "m3", State: api.SessionNeedsLogin, Cause: "m3 needs you", Hint: "run `tunctl login m3`"}
	}
	one := lost("one")
	one.Cause = "job 7 reached its time limit"
	text := Status(term.Layout{Width: 80}, api.Status{Sessions: []api.Session{lost("a"), lost("b"), one, lost("c")}}, false, time.Now())
	if !strings.HasPrefix(text, "m3, 3 sessions:\n  m3 needs you\n  → run `tunctl login m3`\n\nSESSION") || strings.Count(text, "needs you") != 1 {
		t.Errorf("the lost host is not told once:\n%s", text)
	}
	if !strings.HasSuffix(text, "  job 7 reached its time limit\n  → run `tunctl login m3`\nc        m3    login needed  -    -     -\n") {
		t.Errorf("a session of its own cause does not tell it:\n%s", text)
	}
}

func TestStatusSameHint(t *testing.T) {
	failed := func(name, hint string) api.Session {
		return api.Session{Name: name, Host: "m3", State: api.SessionFailed, Cause: "the job has left the queue", Hint: hint}
	}
	text := Status(term.Layout{Width: 80}, api.Status{Sessions: []api.Session{
		failed("x1", "`tunctl logs x1` shows its log; `tunctl up x1 --again` submits a new one; see [session.x1]"),
		failed("x2", "`tunctl logs x2` shows its log; `tunctl up x2 --again` submits a new one; see [session.x2]"),
		failed("c", "`tunctl down c` ends it"),
	}}, false, time.Now())
	want := "m3, 2 sessions:\n  the job has left the queue\n" +
		"  → `tunctl logs SESSION` shows its log; `tunctl up SESSION --again` submits a\n    new one; see [session.SESSION]\n\nSESSION"
	if !strings.HasPrefix(text, want) || strings.Count(text, "left the queue") != 2 {
		t.Errorf("the hint is not said once:\n%s", text)
	}
}

func TestWhatALostConnectionMeantIsShownForAnHour(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 56, 0, 0, time.Local)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	lost := &api.Held{Since: ago(59), Until: ago(58), Lost: 1, Cause: "job 7 has ended"}
	for name, tt := range map[string]struct {
		held *api.Held
		want string
	}{
		"none":                {nil, ""},
		"now":                 {&api.Held{Since: ago(1), Streams: 3, Waiting: 41_000}, "held: 3 streams, 41 kB waiting"},
		"now, with no room":   {&api.Held{Since: ago(1), Streams: 1, Waiting: 131_072, Full: true}, "held: 1 stream, 131 kB waiting; this buffer is full, so programs that send more wait"},
		"over":                {&api.Held{Since: ago(44), Until: ago(1), Streams: 3}, "continued after 43 min; nothing was lost"},
		"over, programs wait": {&api.Held{Since: ago(44), Until: ago(1), Streams: 3, Paused: 2}, "continued after 43 min; nothing was lost; 2 programs waited on a full output buffer"},
		"a loss":              {lost, "1 stream inside the job ended after 1 min without a connection: job 7 has ended"},
		"a loss at once":      {&api.Held{Since: ago(2), Until: ago(2), Lost: 2, Cause: "why"}, "2 streams inside the job ended: why"},
		"a loss before it":    {&api.Held{Since: ago(2), Until: ago(1), Streams: 1, Earlier: lost}, "continued after 1 min; nothing was lost|1 stream inside the job ended after 1 min without a connection: job 7 has ended"},
		"long over":           {&api.Held{Since: ago(90), Until: ago(60), Streams: 3}, ""},
		"nobody waits more":   {&api.Held{Since: ago(2)}, ""},
	} {
		if got := strings.Join(sessionNotes(api.Session{Held: tt.held}, now), "|"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestTheNodeIsWholeInSixtyColumns(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 56, 0, 0, time.Local)
	jupyter := busy(now).Sessions[0]
	jupyter.Job.ID = "1234567.pbs101"
	for width, shown := range map[int]string{110: "HOST, TRAFFIC", 60: "HOST", 50: ""} {
		text := Sessions([]api.Session{jupyter}, now).Draw(term.Layout{Width: width})
		if !strings.Contains(text, "1234567.pbs101 on nc10214 ") {
			t.Errorf("in %d columns the node is cut:\n%s", width, text)
		}
		for _, column := range []string{"HOST", "TRAFFIC"} {
			if strings.Contains(text, column) != strings.Contains(shown, column) {
				t.Errorf("in %d columns, want %q of HOST and TRAFFIC:\n%s", width, shown, text)
			}
		}
	}
	jobs := []api.HostJob{{Host: "narval", Job: api.Job{ID: "48213345", Name: "a-long-name-of-a-job", State: api.JobRunning, Node: "x1000c0s2b0n0", End: now.Add(time.Hour)}}}
	if text := Jobs(jobs, true, now).Draw(term.Layout{Width: 60}); !strings.Contains(text, " x1000c0s2b0n0 ") || !strings.Contains(text, "narval") {
		t.Errorf("the node or the host is cut:\n%s", text)
	}
}

func TestAForwardOfAJobWithoutAPageNamesTheNode(t *testing.T) {
	s := api.Session{Name: "work", App: api.AppShell, Job: &api.Job{Node: "cn02"}}
	if got, want := Forward(api.Forward{Listen: "127.0.0.1:6006", Target: "localhost:6006"}, JobPlace(s)), "127.0.0.1:6006 → localhost:6006 on cn02"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAHostThatWasNeverConnectedHasADashForItsLogin(t *testing.T) {
	st := api.Status{Hosts: []api.Host{{Alias: "narval", State: api.HostDown}}}
	lines := strings.Split(strings.TrimSpace(Status(term.Layout{}, st, false, time.Now())), "\n")
	if got := strings.Join(strings.Fields(lines[len(lines)-1]), " "); got != "narval not connected - - -" {
		t.Errorf("the host's row is %q", got)
	}
}

func TestTheHistoryKeepsItsTimesOnANarrowTerminal(t *testing.T) {
	start := time.Date(2026, 11, 15, 7, 30, 0, 0, time.Local)
	runs := []api.Run{{
		Session: "a-session-with-a-long-name",
		Job:     api.Job{ID: "48213345", State: api.JobFinished, Node: "nc10214.narval.calcul.quebec", Submitted: start.Add(-time.Minute), Start: start, End: start.Add(90 * time.Minute)},
	}}
	text := History(runs).Draw(term.Layout{Width: 60})
	for _, want := range []string{"Sun 15 Nov 07:30", "48213345", "finished"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if term.TextWidth(strings.TrimRight(line, "\n")) > 60 {
			t.Errorf("it does not fit:\n%s", text)
		}
	}
}

func TestIntoAPipeNothingIsCutAndNothingColoured(t *testing.T) {
	now := time.Now()
	text := Status(term.Layout{}, busy(now), false, now)
	if !strings.Contains(text, "a-session-with-quite-a-long-name") || !strings.Contains(text, "48213345 on nc10214") || strings.Contains(text, "\x1b") {
		t.Error(text)
	}
	if coloured := Status(term.Layout{Colours: true}, busy(now), false, now); !strings.Contains(coloured, term.Red+"9 min") || !strings.Contains(coloured, term.Green+"ready") {
		t.Errorf("%q", coloured)
	}
}

func TestOtherJobs(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 0, 0, 0, time.Local)
	for state, cause := range map[api.SessionState]string{
		api.SessionReady: "", api.SessionDown: "", api.SessionFailed: strings.Repeat("it failed for a long reason; ", 9), api.SessionNeedsLogin: "m3 needs you",
	} {
		s := api.Session{
			Name: "nb", Host: "m3", State: state, Cause: cause, Pending: true, Next: &api.Job{ID: "12", State: api.JobRunning, End: now.Add(time.Hour)},
			Others: []api.Job{
				{ID: "13", State: api.JobRunning, End: now.Add(2 * time.Hour)},
				{ID: "14", Host: "narval", State: api.JobQueued, Hint: "you asked to end it, which is not done yet"},
				{ID: "15", State: api.JobCompleting, Hint: "the job was cancelled and is about to end"},
			},
		}
		st := api.Status{Sessions: []api.Session{s}}
		for name, text := range map[string]string{"status": Status(term.Layout{}, st, false, now), "status SESSION": Status(term.Layout{}, st, true, now), "page": SessionPage(term.Layout{}, s, now)} {
			for _, want := range []string{
				"  next: job 12 is running and is charged until 16:00 at most\n",
				"  also: job 13 on m3 is running and is charged until 17:00 at most: `tunctl cancel m3 13` ends it\n",
				"  also: job 14 on narval is queued (you asked to end it, which is not done yet): `tunctl cancel narval 14` ends it\n",
				"  also: job 15 on m3 is ending\n",
				"  the result of a submission is not known: its job may still appear, and is charged then; `tunctl jobs m3` lists it, `tunctl down nb --cancel` ends it\n",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("%s of a session that is %s: %q is not in\n%s", name, state, want, text)
				}
			}
		}
	}
	alone := api.Session{Name: "nb", Host: "m3", State: api.SessionDown, Others: []api.Job{{ID: "13", State: api.JobRunning}}}
	if got := SessionState(alone, now); got != "disconnected, job 13 is charged while it runs" {
		t.Errorf("in a menu: %q", got)
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]api.Forward{
		"127.0.0.1:5432 → db.int:5432 through narval":    {Kind: api.ForwardLocal, Listen: "127.0.0.1:5432", Target: "db.int:5432"},
		"127.0.0.1:8000 → localhost:80 on narval":        {Kind: api.ForwardLocal, Listen: "127.0.0.1:8000", Target: "localhost:80"},
		"127.0.0.1:8001 → [::1]:80 on narval":            {Kind: api.ForwardLocal, Listen: "127.0.0.1:8001", Target: "[::1]:80"},
		"127.0.0.1:8002":                                 {Kind: api.ForwardLocal, Listen: "127.0.0.1:8002"},
		"/tmp/a.sock → /run/app.sock on narval":          {Kind: api.ForwardLocal, Listen: "/tmp/a.sock", Target: "/run/app.sock"},
		"localhost:9000 on narval → localhost:9001 here": {Kind: api.ForwardRemote, Listen: "localhost:9000", Target: "localhost:9001"},
		"127.0.0.1:1080 is a SOCKS proxy on narval":      {Kind: api.ForwardDynamic, Listen: "127.0.0.1:1080"},
	} {
		if got := Forward(f, "narval"); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", f, got, want)
		}
	}
}
