package tray

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/must"
)

var update = flag.Bool("update", false, "rewrite the menus under testdata")

// noon is when the tests happen.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.FixedZone("", 3600))

func session(name string, state api.SessionState, change ...func(*api.Session)) api.Session {
	s := api.Session{Name: name, Host: "narval", State: state, Since: noon.Add(-time.Hour)}
	for _, f := range change {
		f(&s)
	}
	return s
}

func job(change func(*api.Job)) func(*api.Session) {
	return func(s *api.Session) {
		s.Job = &api.Job{ID: "4242", State: api.JobRunning, Node: "nc10"}
		change(s.Job)
	}
}

func page(s *api.Session) { s.URL = "http://localhost:8888/lab" }

func shell(s *api.Session) { s.App = api.AppShell }

func dueTo(cause string) func(*api.Session) { return func(s *api.Session) { s.Cause = cause } }

func runsFor(d time.Duration) func(*api.Session) {
	return job(func(j *api.Job) { j.Start, j.End, j.Seen = noon.Add(-time.Hour), noon.Add(d), noon.Add(-time.Minute) })
}

func narval(state api.HostState, cause string) []api.Host {
	return []api.Host{{Alias: "narval", State: state, Cause: cause}}
}

// statuses are the situations of which a menu is kept.
var statuses = map[string]view{
	"no-agent":     {},
	"no-session":   {Reached: true},
	"down":         reached(narval(api.HostDown, ""), session("jupyter", api.SessionDown)),
	"down-charged": reached(narval(api.HostDown, ""), session("jupyter", api.SessionDown, runsFor(102*time.Minute))),
	"left-behind": reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page, runsFor(102*time.Minute), func(s *api.Session) {
		s.Others = []api.Job{{ID: "4240", State: api.JobRunning, End: noon.Add(3 * time.Hour)}}
	}), session("db", api.SessionDown, func(s *api.Session) { s.Pending = true })),
	"several-down": reached(narval(api.HostDown, ""), session("jupyter", api.SessionDown), session("db", api.SessionDown)),
	"connecting":   reached(narval(api.HostConnecting, ""), session("jupyter", api.SessionConnecting)),
	"needs-login": reached(narval(api.HostNeedsLogin, ""), session("jupyter", api.SessionNeedsLogin,
		dueTo("narval needs you: it asks for a one-time code")),
		session("db", api.SessionReady)),
	"submitting": reached(narval(api.HostUp, ""), session("jupyter", api.SessionSubmitting)),
	"queued": reached(narval(api.HostUp, ""), session("jupyter", api.SessionQueued,
		job(func(j *api.Job) {
			j.State, j.Node, j.ExpectedStart = api.JobQueued, "", noon.Add(2*time.Hour+5*time.Minute).UTC()
		}))),
	"queued-unknown": reached(narval(api.HostUp, ""), session("jupyter", api.SessionQueued,
		job(func(j *api.Job) {
			j.State, j.Reason, j.Hint = api.JobQueued, "Priority", "other jobs come first"
		}))),
	"starting": reached(narval(api.HostUp, ""), session("jupyter", api.SessionStarting, job(func(*api.Job) {}))),
	"ready":    reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page, runsFor(102*time.Minute))),
	"other-pages": reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page, runsFor(102*time.Minute), func(s *api.Session) {
		s.Endpoints = []api.NamedEndpoint{
			{Name: "dask", Endpoint: api.Endpoint{App: "dask"}}, {Name: "jupyter-2", Endpoint: api.Endpoint{App: "jupyter"}},
		}
	})),
	"recent-choices": reached(narval(api.HostDown, ""), session("jupyter", api.SessionDown, func(s *api.Session) {
		s.Recent = []api.Choices{{"gpus": "2", "hours": "8"}, {"memory": "64G"}}
	})),
	"shell-down":     reached(narval(api.HostDown, ""), session("work", api.SessionDown, shell)),
	"shell-starting": reached(narval(api.HostUp, ""), session("work", api.SessionStarting, shell, job(func(*api.Job) {}))),
	"shell-ready":    reached(narval(api.HostUp, ""), session("work", api.SessionReady, shell, runsFor(102*time.Minute))),
	"several-ready": reached(narval(api.HostUp, ""),
		session("jupyter", api.SessionReady, page, runsFor(50*time.Hour)),
		session("my_board", api.SessionReady, page, func(s *api.Session) { s.Since = noon }),
		session("db", api.SessionReady)),
	"reconnecting": reached(narval(api.HostWaiting, "no network"), session("jupyter", api.SessionReconnecting, page, runsFor(time.Hour))),
	"not-responding": func() view {
		since := noon.Add(-20 * time.Second)
		host := api.Host{Alias: "narval", State: api.HostUp, NotRespondingSince: since, Cause: "narval is not responding since 11:59:40"}
		stalled := session("jupyter", api.SessionReconnecting, page, runsFor(time.Hour), dueTo(host.Cause))
		stalled.NotRespondingSince = since
		return reached([]api.Host{host}, stalled)
	}(),
	"ended": reached(narval(api.HostUp, ""), session("jupyter", api.SessionEnded, dueTo("job 4242 reached its time limit at 11:58"),
		job(func(j *api.Job) { j.State = api.JobTimeout }))),
	"failed": reached(narval(api.HostUp, ""), session("jupyter", api.SessionFailed,
		dueTo("job 4242 failed with exit status 127 at 11:58 before it served anything; its log ends with:\njupyter: command not found"),
		job(func(j *api.Job) { j.State = api.JobFailed }))),
	"several-failed": reached(narval(api.HostBlocked, "narval refused the login twice"),
		session("jupyter", api.SessionFailed, dueTo("narval refused the login twice")),
		session("db", api.SessionFailed, dueTo("forward 5432:db.int:5432 was refused"))),
	"cells-finished": reached(narval(api.HostDown, ""), session("jupyter", api.SessionDown, func(s *api.Session) { s.Cells = api.Cells{Finished: 2} })),
	"old-failure": reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page),
		session("db", api.SessionFailed, dueTo("forward 5432:db.int:5432 was refused"), func(s *api.Session) { s.Since = noon.Add(-2 * time.Hour) })),
	"asking": func() view {
		v := reached([]api.Host{{Alias: "lab-pass", State: api.HostConnecting}}, session("jupyter", api.SessionConnecting))
		v.Asking = []string{"lab-pass"}
		return v
	}(),
	"many": func() view {
		v := reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page), session("a-name-of-more-than-thirty-letters", api.SessionStarting))
		for i := range 29 {
			v.Status.Sessions = append(v.Status.Sessions, session(fmt.Sprintf("course-%02d", i), api.SessionDown))
		}
		return v
	}(),
	"bad-config": func() view {
		v := reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page))
		v.Status.Config = &api.Problem{Message: "config.toml:3:1: unknown key \"hots\""}
		return v
	}(),
	"paused": func() view {
		const why = "the agent crashed 3 times within 10 min, so it does not connect automatically"
		v := reached(nil, session("jupyter", api.SessionFailed, dueTo(why)), session("db", api.SessionFailed, dueTo(why)))
		v.Status.Agent = &api.Agent{Paused: &api.Problem{Message: why}}
		return v
	}(),
}

func reached(hosts []api.Host, sessions ...api.Session) view {
	return view{Reached: true, Status: api.Status{Hosts: hosts, Sessions: sessions}}
}

// render writes a menu as text, one entry a line.
func render(m menu) string {
	var b strings.Builder
	fmt.Fprintf(&b, "icon: %s\ntooltip: %s\n\n", m.Icon, m.Tooltip)
	var write func(items []menuItem, indent string)
	write = func(items []menuItem, indent string) {
		for _, it := range items {
			mark := " "
			switch {
			case it.Separator:
				fmt.Fprintf(&b, "%s  ────\n", indent)
				continue
			case it.Hidden:
				continue
			case !it.Enabled:
				mark = "-"
			case it.Checked:
				mark = "✓"
			}
			fmt.Fprintf(&b, "%s%s %s  [%s]\n", indent, mark, it.Title, it.ID)
			write(it.Children, indent+"    ")
		}
	}
	write(m.Items, "")
	return b.String()
}

func TestMenu(t *testing.T) {
	for name, v := range statuses {
		t.Run(name, func(t *testing.T) {
			v.Now = noon
			v.CanAutostart, v.Autostart = true, name == "ready"
			got := render(menuFor(v))
			path := filepath.Join("testdata", "menus", name+".txt")
			if *update {
				must.Do(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			must.Do(t, err)
			if got != string(want) {
				t.Errorf("the menu is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestMenuFirstEntry(t *testing.T) {
	for name, want := range map[string]string{
		"no-agent": "Start tunctl", "no-session": "Set up my first notebook…", "down": "Start jupyter",
		"down-charged": "Reconnect to jupyter", "several-down": "Start…", "ended": "Start jupyter",
		"needs-login": "Log in to narval…", "ready": "Open jupyter", "several-ready": "Open…",
		"failed": "See why jupyter failed…", "several-failed": "See what went wrong…", "asking": "Answer lab-pass…", "old-failure": "Open jupyter", "paused": "Reconnect: the agent crashed several times", "bad-config": "Open jupyter",
	} {
		v := statuses[name]
		v.Now = noon
		if first := menuFor(v).Items[0]; first.Title != want || !first.Enabled {
			t.Errorf("%s: the first entry is %+v, want %q", name, first, want)
		}
	}
	for _, name := range []string{"connecting", "submitting", "queued", "starting", "reconnecting"} {
		if first := menuFor(statuses[name]).Items[0]; first.Title != "jupyter is not ready yet" || first.Enabled {
			t.Errorf("%s: the first entry is %+v", name, first)
		}
	}
}

func TestMenuRepeatsNothing(t *testing.T) {
	for name, v := range statuses {
		v.Now, v.CanAutostart = noon, true
		items := menuFor(v).Items
		for i, it := range items {
			words := it.Title
			if about, after, ok := strings.Cut(it.Title, ": "); ok && !strings.Contains(about, " ") {
				words = after // without the name
			}
			for k, other := range items {
				// Two sessions may be in the same state, and two words are no sentence.
				if i != k && other.ID.verb != it.ID.verb && strings.Count(words, " ") > 1 && strings.Contains(other.Title, words) {
					t.Errorf("%s: %q and %q", name, it.Title, other.Title)
				}
			}
		}
	}
}

func TestMenuJobLastSeen(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*api.Job)
		want   string
	}{
		"running":   {func(j *api.Job) { j.End = noon.Add(time.Hour) }, "jupyter: disconnected, job 4242 is charged until 13:00 at most"},
		"not known": {func(*api.Job) {}, "jupyter: disconnected, job 4242 is charged while it runs"},
		"queued":    {func(j *api.Job) { j.State = api.JobQueued }, "jupyter: disconnected, job 4242 last seen queued"},
		"no more":   {func(j *api.Job) { j.State = api.JobTimeout }, "jupyter: down"},
		"over":      {func(j *api.Job) { j.End = noon.Add(-time.Hour) }, "jupyter: down"},
	} {
		if got := sessionLine(session("jupyter", api.SessionDown, job(tt.change)), noon); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestMenuIDs(t *testing.T) {
	for name, v := range statuses {
		seen := map[choice]bool{}
		var walk func(items []menuItem)
		walk = func(items []menuItem) {
			for _, it := range items {
				if seen[it.ID] {
					t.Errorf("%s: %q twice", name, it.ID)
				}
				seen[it.ID] = true
				walk(it.Children)
			}
		}
		walk(menuFor(v).Items)
	}
}

func TestMenuShape(t *testing.T) {
	shape := func(name string) string {
		var ids []string
		for _, it := range menuFor(statuses[name]).Items {
			ids = append(ids, it.ID.String())
			for _, c := range it.Children {
				ids = append(ids, fmt.Sprint(it.ID, "/", c.ID))
			}
		}
		return strings.Join(ids, " ")
	}
	want := shape("connecting")
	for _, name := range []string{"submitting", "queued", "starting", "ready", "reconnecting"} {
		if got := shape(name); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
}

func TestMenuWithoutAutostart(t *testing.T) {
	if text := render(menuFor(statuses["ready"])); strings.Contains(text, "["+verbAutostart.name+"]") {
		t.Errorf("it is offered, though nothing does it:\n%s", text)
	}
}

func TestIconCharged(t *testing.T) {
	for want, s := range map[iconKind]api.Session{
		iconCharged: session("jupyter", api.SessionDown, runsFor(time.Hour)),
		iconIdle:    session("jupyter", api.SessionDown, job(func(j *api.Job) { j.State = api.JobQueued })),
		iconReady:   session("jupyter", api.SessionReady, page, runsFor(time.Hour)),
	} {
		if got := iconFor(reached(narval(api.HostUp, ""), s)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestIconAfterFailure(t *testing.T) {
	failed := api.Session{Name: "broken", State: api.SessionFailed, Since: noon.Add(-2 * time.Hour)}
	for state, want := range map[api.SessionState]iconKind{
		api.SessionReady: iconReady, api.SessionEnded: iconIdle, api.SessionDown: iconIdle, api.SessionQueued: iconTrouble,
	} {
		st := api.Status{Sessions: []api.Session{failed, {Name: "nb", State: state, Since: noon.Add(-time.Hour)}}}
		if got := iconFor(view{Status: st, Reached: true, Now: noon}); got != want {
			t.Errorf("%s since the failure: %s, want %s", state, got, want)
		}
	}
}
