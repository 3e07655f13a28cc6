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
)

var update = flag.Bool("update", false, "write the menus under testdata anew")

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

func dueTo(cause string) func(*api.Session) { return func(s *api.Session) { s.Cause = cause } }

func runsFor(d time.Duration) func(*api.Session) {
	return job(func(j *api.Job) { j.Start, j.End = noon.Add(-time.Hour), noon.Add(d) })
}

func narval(state api.HostState, cause string) []api.Host {
	return []api.Host{{Alias: "narval", State: state, Cause: cause}}
}

// statuses are the situations of which a menu is kept.
var statuses = map[string]View{
	"no-agent":   {},
	"no-session": {Reached: true},
	"down":       reached(narval(api.HostDown, ""), session("jupyter", api.SessionDown)),
	"connecting": reached(narval(api.HostConnecting, ""), session("jupyter", api.SessionConnecting)),
	"needs-login": reached(narval(api.HostNeedsLogin, ""), session("jupyter", api.SessionNeedsLogin),
		session("db", api.SessionReady)),
	"submitting": reached(narval(api.HostUp, ""), session("jupyter", api.SessionSubmitting)),
	"queued": reached(narval(api.HostUp, ""), session("jupyter", api.SessionQueued,
		job(func(j *api.Job) {
			j.State, j.Node, j.ExpectedStart = api.JobQueued, "", noon.Add(2*time.Hour+5*time.Minute).UTC()
		}))),
	"queued-unknown": reached(narval(api.HostUp, ""), session("jupyter", api.SessionQueued,
		job(func(j *api.Job) {
			j.State, j.Reason, j.Hint = api.JobQueued, "Priority", "other jobs go first"
		}))),
	"starting": reached(narval(api.HostUp, ""), session("jupyter", api.SessionStarting, job(func(*api.Job) {}))),
	"ready":    reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page, runsFor(102*time.Minute))),
	"several-ready": reached(narval(api.HostUp, ""),
		session("jupyter", api.SessionReady, page, runsFor(50*time.Hour)),
		session("my_board", api.SessionReady, page, func(s *api.Session) { s.Since = noon }),
		session("db", api.SessionReady)),
	"reconnecting": reached(narval(api.HostWaiting, "no network"), session("jupyter", api.SessionReconnecting, page, runsFor(time.Hour))),
	"ended": reached(narval(api.HostUp, ""), session("jupyter", api.SessionEnded, dueTo("the job reached its time limit"),
		job(func(j *api.Job) { j.State = api.JobTimeout }))),
	"failed": reached(narval(api.HostBlocked, "narval refused the login twice"),
		session("jupyter", api.SessionFailed, dueTo("sbatch: error: Batch job submission failed: Invalid account or\naccount/partition combination specified"))),
	"bad-config": func() View {
		v := reached(narval(api.HostUp, ""), session("jupyter", api.SessionReady, page))
		v.Status.Config = &api.Problem{Message: "config.toml:3:1: unknown key \"hots\""}
		return v
	}(),
}

func reached(hosts []api.Host, sessions ...api.Session) View {
	return View{Reached: true, Status: api.Status{Hosts: hosts, Sessions: sessions}}
}

// render writes a menu as text, one entry a line.
func render(m Menu) string {
	var b strings.Builder
	fmt.Fprintf(&b, "icon: %s\ntooltip: %s\n\n", m.Icon, m.Tooltip)
	var write func(items []Item, indent string)
	write = func(items []Item, indent string) {
		for _, it := range items {
			mark := " "
			switch {
			case it.Separator:
				fmt.Fprintf(&b, "%s  ────\n", indent)
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

func TestTheMenuTellsTheStatus(t *testing.T) {
	for name, v := range statuses {
		t.Run(name, func(t *testing.T) {
			v.Now = noon
			v.Can = Abilities{Autostart: true, StartAgent: true, Login: true, Logout: true}
			v.Autostart = name == "ready"
			got := render(MenuFor(v))
			path := filepath.Join("testdata", "menus", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the menu is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestNoTwoEntriesShareAnID(t *testing.T) {
	for name, v := range statuses {
		seen := map[string]bool{}
		var walk func(items []Item)
		walk = func(items []Item) {
			for _, it := range items {
				if seen[it.ID] {
					t.Errorf("%s: %q twice", name, it.ID)
				}
				seen[it.ID] = true
				walk(it.Children)
			}
		}
		walk(MenuFor(v).Items)
	}
}

func TestTheMenuKeepsItsShapeOnTheWayToReady(t *testing.T) {
	shape := func(name string) string {
		var ids []string
		for _, it := range MenuFor(statuses[name]).Items {
			ids = append(ids, it.ID)
			for _, c := range it.Children {
				ids = append(ids, it.ID+"/"+c.ID)
			}
		}
		return strings.Join(ids, " ")
	}
	want := shape("down")
	for _, name := range []string{"connecting", "submitting", "queued", "starting", "ready", "reconnecting", "ended", "failed"} {
		if got := shape(name); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
}

func TestWhatCannotBeDoneIsNotOffered(t *testing.T) {
	text := render(MenuFor(statuses["ready"])) + render(MenuFor(statuses["no-agent"]))
	for _, id := range []string{verbAutostart, verbStartAgent, verbLogin + ":narval", verbLogout + ":narval"} {
		if strings.Contains(text, "["+id+"]") {
			t.Errorf("%q is offered, though nothing does it:\n%s", id, text)
		}
	}
}

func TestTimeIsSaidAsPeopleDo(t *testing.T) {
	for d, want := range map[time.Duration]string{2 * time.Hour: "14:00", 24 * time.Hour: "Thu 12:00", 30 * 24 * time.Hour: "3 Apr 12:00"} {
		if got := clock(noon.Add(d), noon); got != want {
			t.Errorf("noon and %v is said %q, want %q", d, got, want)
		}
	}
}

func TestALongCauseIsCutBetweenWords(t *testing.T) {
	for text, want := range map[string]string{
		"short\n and  sweet": "short and sweet",
		"job 1005 failed with exit status 137 at 07:14; its log ends with:\nKilled": "job 1005 failed with exit status 137 at 07:14; its log ends…",
		strings.Repeat("ü", 61): strings.Repeat("ü", 59) + "…",
	} {
		if got := brief(text); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}
