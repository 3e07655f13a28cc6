package tray

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/words"
)

// told are all kinds of notifications, as the user gets to see them.
func told() map[string]notification {
	first := func(st api.Status, before api.SessionState) notification {
		h := newTracker()
		old := api.Status{Hosts: st.Hosts, Sessions: slices.Clone(st.Sessions)}
		old.Sessions[0].State = before
		h.update(old, nil, noon.Add(-time.Hour))
		return h.update(st, nil, noon)[0]
	}
	all := map[string]notification{}
	for name, before := range map[string]api.SessionState{
		"ready": api.SessionQueued, "ended": api.SessionReady, "failed": api.SessionSubmitting,
		"needs-login": api.SessionConnecting, "reconnecting": api.SessionReconnecting,
	} {
		all[name] = first(statuses[name].Status, before)
	}
	all["time-limit"] = noticeNotification(api.Notice{
		Kind: api.NoticeTimeLimit, Session: "jupyter", Text: "jupyter ends in 15 min, at 12:15: save your work",
	}, statuses["ready"].Status, noon)
	all["idle"] = noticeNotification(api.Notice{
		Kind: api.NoticeIdle, Session: "jupyter", Text: "jupyter: idle for 30 min, 3.2 GPU-hours left in this job",
	}, statuses["ready"].Status, noon)
	all["continued"] = noticeNotification(api.Notice{
		Session: "jupyter", Text: "jupyter: " + words.HeldOver(api.Held{Until: noon, Since: noon.Add(-43 * time.Minute), Streams: 3}),
	}, statuses["ready"].Status, noon)
	all["end"] = endQuestion(statuses["ready"].Status.Sessions[0])
	all["certificate"] = noticeNotification(api.Notice{
		Kind: api.NoticeNeedsLogin, Host: "narval",
		Text: "your certificate for narval expires soon: after 12:30, a lost connection needs you to log in again with a new certificate",
	}, statuses["ready"].Status, noon)
	all["config"] = noticeNotification(api.Notice{Kind: api.NoticeConfig, Text: "the config has errors; the last valid one stays in use: config.toml:3:1: unknown key \"hots\""}, api.Status{}, noon)
	all["back"] = backNotification(statuses["ready"].Status.Sessions[0])
	return all
}

func TestNotificationText(t *testing.T) {
	check := func(name string, n notification) {
		t.Helper()
		if len([]rune(n.title)) > 40 || n.title == "" {
			t.Errorf("%s: the title %q has %d characters", name, n.title, len([]rune(n.title)))
		}
		if text := n.title + n.body + n.instead; strings.ContainsAny(text, "`\n") || strings.Contains(text, "tunctl up") || strings.Contains(text, "tunctl login") {
			t.Errorf("%s: it tells commands: %+v", name, n)
		}
		for _, v := range n.verbs {
			if v.button == "" {
				t.Errorf("%s: %q has no label", name, v)
			}
		}
	}
	for name, n := range told() {
		check(name, n)
		if buttonless := slices.Contains([]string{"reconnecting", "certificate", "continued"}, name); (len(n.verbs) == 0) != buttonless {
			t.Errorf("%s: it offers %q", name, n.verbs)
		}
	}
	// Names and causes may be long, and causes tell commands.
	long := session(strings.Repeat("n", 50), api.SessionReady, page, runsFor(time.Hour),
		dueTo("the job failed: fix it; `tunctl up "+strings.Repeat("n", 50)+"` starts a new one; its log ends with:\n"+strings.Repeat("x", 500)))
	long.Host = strings.Repeat("h", 60)
	for name, n := range map[string]notification{
		"ready": readyNotification(long, noon), "back": backNotification(long), "ended": endedNotification(long), "login": loginNotification(long),
		"notice": noticeNotification(api.Notice{Kind: api.NoticeTimeLimit, Session: long.Name, Text: long.Name + " ends in 15 min, at 12:15: save your work"}, api.Status{}, noon),
	} {
		check("long "+name, n)
		if len(n.body) > 250 {
			t.Errorf("long %s: the body has %d characters", name, len(n.body))
		}
	}
}

func TestNotification(t *testing.T) {
	// step is how a session is at a time after noon.
	type step struct {
		after time.Duration
		state api.SessionState
		want  []string // titles
	}
	ready := "jupyter is ready"
	tests := []struct {
		name      string
		end       time.Duration // of the job, after noon
		requested time.Duration // when it was brought up from the menu; 0: it was not
		steps     []step
	}{
		{name: "a long wait ends", end: 5*time.Hour + 20*time.Minute, steps: []step{
			{0, api.SessionDown, nil},
			{time.Second, api.SessionConnecting, nil},
			{10 * time.Second, api.SessionQueued, nil},
			{20 * time.Minute, api.SessionReady, []string{ready}},
			{21 * time.Minute, api.SessionReady, nil},
		}},
		{name: "what a person just did in a terminal", end: 5 * time.Hour, steps: []step{
			{0, api.SessionDown, nil},
			{time.Second, api.SessionConnecting, nil},
			{5 * time.Second, api.SessionReady, nil},
			{30 * time.Second, api.SessionDown, nil},
			{40 * time.Second, api.SessionConnecting, nil},
			{45 * time.Second, api.SessionFailed, nil},
		}},
		{name: "what was clicked opens by itself, and its failure is told", end: 5 * time.Hour, requested: time.Second, steps: []step{
			{0, api.SessionDown, nil},
			{2 * time.Second, api.SessionStarting, nil},
			{40 * time.Second, api.SessionReady, nil},
			{50 * time.Second, api.SessionDown, nil},
			{52 * time.Second, api.SessionConnecting, nil},
			{54 * time.Second, api.SessionFailed, []string{"jupyter failed"}},
		}},
		{name: "it was ready when we came", end: 5 * time.Hour, steps: []step{{0, api.SessionReady, nil}}},
		{name: "it comes back after the agent was away", end: 5 * time.Hour, steps: []step{
			{0, api.SessionReady, nil},
			{time.Hour, api.SessionConnecting, nil},
			{2 * time.Hour, api.SessionReady, nil},
		}},
		{name: "a job ends", end: 5 * time.Hour, steps: []step{
			{0, api.SessionReady, nil},
			{time.Hour, api.SessionEnded, []string{"jupyter has ended"}},
			{2 * time.Hour, api.SessionEnded, nil},
		}},
		{name: "a short loss of the link", end: 5 * time.Hour, steps: []step{
			{0, api.SessionReady, nil},
			{time.Second, api.SessionReconnecting, nil},
			{50 * time.Second, api.SessionReconnecting, nil},
			{55 * time.Second, api.SessionReady, nil},
		}},
		{name: "a long loss of the link", end: 5 * time.Hour, steps: []step{
			{0, api.SessionReady, nil},
			{time.Second, api.SessionReconnecting, nil},
			{62 * time.Second, api.SessionReconnecting, []string{"No connection to narval"}},
			{10 * time.Minute, api.SessionReconnecting, nil},
			{11 * time.Minute, api.SessionReady, []string{"jupyter is connected again"}},
			{12 * time.Minute, api.SessionReady, nil},
		}},
		{name: "a login is needed", end: time.Hour, steps: []step{
			{0, api.SessionNeedsLogin, []string{"Log in to narval"}},
			{time.Minute, api.SessionNeedsLogin, nil},
			{2 * time.Minute, api.SessionConnecting, nil},
			{3 * time.Minute, api.SessionNeedsLogin, []string{"Log in to narval"}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTracker()
			requested := map[string]time.Time{}
			if tt.requested != 0 {
				requested["jupyter"] = noon.Add(tt.requested)
			}
			for _, step := range tt.steps {
				s := session("jupyter", step.state, page, dueTo("why"), runsFor(tt.end))
				// A second session on the same host must not double what is said of the host.
				other := session("other", api.SessionDown)
				if step.state == api.SessionNeedsLogin {
					other.State = api.SessionNeedsLogin
				}
				var got []string
				for _, n := range h.update(api.Status{Sessions: []api.Session{s, other}}, requested, noon.Add(step.after)) {
					got = append(got, n.title)
				}
				if !reflect.DeepEqual(got, step.want) {
					t.Errorf("%s after %v: told %q, want %q", step.state, step.after, got, step.want)
				}
			}
		})
	}
}

func TestNotificationOfLogout(t *testing.T) {
	h := newTracker()
	for i, state := range []api.SessionState{api.SessionReady, api.SessionNeedsLogin, api.SessionNeedsLogin, api.SessionReconnecting, api.SessionReady} {
		s := session("jupyter", state)
		s.Asked = state == api.SessionNeedsLogin
		st := api.Status{
			Sessions: []api.Session{s},
			Hosts:    []api.Host{{Alias: "narval", State: api.HostDown}},
		}
		if told := h.update(st, nil, noon.Add(time.Duration(i)*time.Hour)); len(told) > 0 {
			t.Errorf("%s: told %+v", state, told)
		}
	}
}

func TestNotificationHolds(t *testing.T) {
	tests := []struct {
		kind   string
		name   string
		before api.SessionState
		after  api.SessionState
		gone   bool
	}{
		{kindReady, "jupyter", api.SessionReady, api.SessionReconnecting, true},
		{kindReady, "jupyter", api.SessionReady, api.SessionReady, false},
		{kindEnded, "jupyter", api.SessionEnded, api.SessionConnecting, true},
		{kindEnded, "jupyter", api.SessionEnded, api.SessionEnded, false},
		{kindNeedsLogin, "narval", api.SessionNeedsLogin, api.SessionConnecting, true},
		{kindNeedsLogin, "narval", api.SessionNeedsLogin, api.SessionNeedsLogin, false},
		{kindLink, "jupyter", api.SessionReconnecting, api.SessionDown, true},
		{kindLink, "jupyter", api.SessionReconnecting, api.SessionReady, false}, // "is back" takes its place
		{kindTimeLimit, "jupyter", api.SessionReady, api.SessionReady, false},
	}
	for _, tt := range tests {
		h := newTracker()
		h.shown(notification{kind: tt.kind, name: tt.name, limit: noon.Add(time.Hour)})
		status := func(state api.SessionState) api.Status {
			return api.Status{Sessions: []api.Session{session("jupyter", state, runsFor(time.Hour))}}
		}
		if tags := h.outdated(status(tt.before)); len(tags) != 0 {
			t.Errorf("%s while %s: withdrawn", tt.kind, tt.before)
		}
		if tags := h.outdated(status(tt.after)); (len(tags) == 1) != tt.gone {
			t.Errorf("%s, %s then %s: withdrawn %q", tt.kind, tt.before, tt.after, tags)
		}
		if tags := h.outdated(status(tt.after)); len(tags) != 0 {
			t.Errorf("%s: withdrawn twice", tt.kind)
		}
	}
}

func TestNotificationOfRequestedEnd(t *testing.T) {
	for _, asked := range []bool{false, true} {
		h := newTracker()
		s := session("jupyter", api.SessionReady, runsFor(time.Hour))
		h.update(api.Status{Sessions: []api.Session{s}}, nil, noon)
		s.State, s.Asked = api.SessionEnded, asked
		if got := h.update(api.Status{Sessions: []api.Session{s}}, nil, noon.Add(time.Hour)); (len(got) == 0) != asked {
			t.Errorf("asked for: %t, news: %+v", asked, got)
		}
	}
}
