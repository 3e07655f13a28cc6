package watchui

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"tunctl/internal/api"
	"tunctl/internal/dev/must"
	"tunctl/internal/term"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)

// bench is a model with what it has caused.
type bench struct {
	t       *testing.T
	model   model
	tasks   []task
	streams []stream
	logins  []string
	asked   [][]string // hosts whose jobs were requested
	command tea.Cmd    // the last one
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{t: t}
	b.model = newModel(o, b, false, noon)
	return b
}

func (b *bench) follow(s stream)     { b.streams = append(b.streams, s) }
func (b *bench) jobs(hosts []string) { b.asked = append(b.asked, hosts) }
func (b *bench) act(t task)          { b.tasks = append(b.tasks, t) }
func (b *bench) suspend() tea.Cmd    { return tea.Suspend }

func (b *bench) login(host string) tea.Cmd {
	b.logins = append(b.logins, host)
	return nil
}

func (b *bench) send(msgs ...tea.Msg) *bench {
	b.t.Helper()
	for _, msg := range msgs {
		next, cmd := b.model.Update(msg)
		b.model, b.command = next.(model), cmd
	}
	return b
}

var named = map[string]tea.KeyPressMsg{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "backspace": {Code: tea.KeyBackspace}, "down": {Code: tea.KeyDown}, "up": {Code: tea.KeyUp},
	"pgdown": {Code: tea.KeyPgDown}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
	"ctrl+z": {Code: 'z', Mod: tea.ModCtrl},
}

// press presses keys: names, or texts that are typed.
func (b *bench) press(keys ...string) *bench {
	b.t.Helper()
	for _, k := range keys {
		if msg, ok := named[k]; ok {
			b.send(msg)
			continue
		}
		for _, r := range k {
			b.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return b
}

func (b *bench) screen() string { return b.model.View().Content }

func (b *bench) shows(words ...string) {
	b.t.Helper()
	for _, w := range words {
		if !strings.Contains(b.screen(), w) {
			b.t.Errorf("no %q on\n%s", w, b.screen())
		}
	}
}

func TestModelTellsASilentAgent(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.send(tickMsg(noon.Add(silentAfter - time.Second)))
	if strings.Contains(b.screen(), "not answered") {
		t.Errorf("at once:\n%s", b.screen())
	}
	b.send(tickMsg(noon.Add(silentAfter))).shows("the agent has not answered since 12:00:00")
	b.send(statusMsg{three(), noon.Add(silentAfter)})
	if strings.Contains(b.screen(), "not answered") || b.command != nil {
		t.Errorf("after an answer:\n%s", b.screen())
	}
}

func TestMessageOfAState(t *testing.T) {
	up := func(s api.Session) *bench {
		return newBench(t, Options{Status: three()}).press("u").send(actedMsg{result: result{text: "starting", told: s}})
	}
	st := three()
	s := &st.Sessions[0]
	s.State, s.MaySubmit, s.Job = api.SessionConnecting, true, nil
	b := up(*s)
	s.State = api.SessionSubmitting
	b.send(statusMsg{st, noon}).shows("starting")
	s.State, s.Job = api.SessionStarting, &api.Job{ID: "4713", State: api.JobRunning}
	if b.send(statusMsg{st, noon}); strings.Contains(b.model.message, "starting") {
		t.Errorf("while the job runs:\n%s", b.screen())
	}
	if b := up(*s).send(statusMsg{three(), noon}); b.model.message != "" {
		t.Errorf("in another state:\n%s", b.screen())
	}
	if b := up(*s).send(statusMsg{api.Status{}, noon}); b.model.message != "" {
		t.Errorf("without the session:\n%s", b.screen())
	}
	b = up(*s).send(noticeMsg("another one"), statusMsg{three(), noon})
	b.shows("another one")
}

func TestMessageCut(t *testing.T) {
	var long []string
	for i := range 10 {
		long = append(long, fmt.Sprintf("line %d", i))
	}
	b := newBench(t, Options{Status: three()}).send(actedMsg{err: errors.New("could not extend job 1001:\n" + strings.Join(long, "\n"))})
	b.shows("✗ could not extend job 1001:", "line 9\n")
	b.send(tea.WindowSizeMsg{Width: 60, Height: 10}).shows("✗ could not extend job 1001:", "line 3 …")
}

// three are sessions in three states, on two hosts.
func three() api.Status {
	return api.Status{
		Sessions: []api.Session{
			{
				Name: "jupyter", Host: "narval", State: api.SessionReady, URL: "http://localhost:18888/lab",
				Job: &api.Job{ID: "4711", Name: "jupyterlab", State: api.JobRunning, Node: "nc10201"},
			},
			{
				Name: "train", Host: "narval", State: api.SessionQueued, Cause: "other jobs have a higher priority; an earlier job like this waited for about 3 h 20 min",
				Job: &api.Job{ID: "4712", Name: "train", State: api.JobQueued},
			},
			{Name: "db", Host: "rorqual", State: api.SessionNeedsLogin, Cause: "rorqual asks for a code", Hint: "log in to continue"},
		},
		Hosts: []api.Host{
			{Alias: "narval", Hostname: "narval.example.org", State: api.HostUp},
			{Alias: "rorqual", Hostname: "rorqual.example.org", State: api.HostNeedsLogin, Cause: "a code is needed"},
		},
	}
}

func manyJobs(n int) jobsMsg {
	var list jobsMsg
	for i := range n {
		list = append(list, api.HostJob{Host: "narval", Job: api.Job{ID: fmt.Sprint(4711 + i), Name: fmt.Sprintf("sweep-%02d", i), State: api.JobQueued, Reason: "Priority"}})
	}
	return list
}

func percent(p float64) *float64 { return &p }

// screens are ways to a picture.
var screens = []struct {
	name string
	way  func(*bench)
}{
	{"sessions", func(*bench) {}},
	{"a host in trouble", func(b *bench) {
		st := three()
		for i := range 2 {
			st.Sessions[i].State, st.Sessions[i].Cause, st.Sessions[i].Hint = api.SessionNeedsLogin, "you logged out of narval", "`tunctl login narval` reconnects"
		}
		b.send(statusMsg{st, noon})
	}},
	{"the second session is chosen", func(b *bench) { b.press("j") }},
	{"details", func(b *bench) { b.press("enter") }},
	{"jobs", func(b *bench) { b.press("2").send(manyJobs(3)) }},
	{"many jobs", func(b *bench) { b.press("2").send(manyJobs(70)).press("pgdown", "pgdown", "j") }},
	{"use", func(b *bench) { b.press("3").send(usageMsg{Session: "jupyter", Time: noon, CPUPercent: percent(42)}) }},
	{"hosts", func(b *bench) { b.press("4") }},
	{"log", func(b *bench) {
		b.press("l")
		for i := range 80 {
			b.send(logMsg{b.model.open, logged(fmt.Sprintf("epoch %d: loss %d of a line that is longer than a narrow terminal is wide", i, 100-i))})
		}
	}},
	{"a question", func(b *bench) { b.press("e2h") }},
	{"a confirmation", func(b *bench) { b.press("c") }},
	{"a filter", func(b *bench) { b.press("/tra") }},
	{"an error", func(b *bench) {
		b.press("o").send(actedMsg{err: &api.Error{Message: "the browser started, but did not request the page", Hint: "`tunctl open jupyter` tries again; --print shows the full address"}})
	}},
	{"help", func(b *bench) { b.press("?") }},
}

// TestScreens compares with testdata; TUNCTL_UPDATE_SCREENS=1 rewrites it.
func TestScreens(t *testing.T) {
	for _, size := range []struct{ width, height int }{{60, 15}, {80, 24}, {200, 60}} {
		var all strings.Builder
		for _, s := range screens {
			b := newBench(t, Options{Status: three()})
			b.send(tea.WindowSizeMsg{Width: size.width, Height: size.height})
			s.way(b)
			lines := strings.Split(b.screen(), "\n")
			if len(lines) != size.height {
				t.Errorf("%s at %d×%d: %d lines", s.name, size.width, size.height, len(lines))
			}
			fmt.Fprintf(&all, "-- %s --\n", s.name)
			for _, line := range lines {
				if term.TextWidth(line) > size.width {
					t.Errorf("%s at %d×%d: a line is too wide: %q", s.name, size.width, size.height, line)
				}
				all.WriteString(strings.TrimRight(line, " ") + "\n")
			}
		}
		file := filepath.Join("testdata", fmt.Sprintf("screens-%dx%d.txt", size.width, size.height))
		if os.Getenv("TUNCTL_UPDATE_SCREENS") != "" {
			must.Do(t, os.WriteFile(file, []byte(all.String()), 0o600))
		}
		want, err := os.ReadFile(file)
		must.Do(t, err)
		if all.String() != string(want) {
			t.Errorf("%s differs:\n%s", file, all.String())
		}
	}
}

func TestScreensAtEverySize(t *testing.T) {
	for _, width := range []int{1, 8, 20, 39, 59, 90} {
		for _, height := range []int{1, 2, 3, 5, 9, 14, 29} {
			for _, s := range screens {
				b := newBench(t, Options{Status: three()})
				s.way(b)
				b.send(tea.WindowSizeMsg{Width: width, Height: height}) // also while it is shown
				if lines := strings.Count(b.screen(), "\n") + 1; lines > height {
					t.Fatalf("%s at %d×%d has %d lines", s.name, width, height, lines)
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		keys []string
		want []task
	}{
		{[]string{"o"}, []task{{verb: openVerb, session: "jupyter", host: "narval"}}},
		{[]string{"j", "j", "u"}, []task{{verb: upVerb, session: "db", host: "rorqual"}}},
		{[]string{"down", "up", "d"}, []task{{verb: downVerb, session: "jupyter", host: "narval"}}},
		{[]string{"y"}, []task{{verb: copyVerb, session: "jupyter", host: "narval"}}},
		{[]string{"G", "u"}, []task{{verb: upVerb, session: "db", host: "rorqual"}}},
		{[]string{"G", "g", "u"}, []task{{verb: upVerb, session: "jupyter", host: "narval"}}},
		{[]string{"e", "2hx", "backspace", "enter"}, []task{{verb: extendVerb, session: "jupyter", host: "narval", typed: "2h"}}},
		{[]string{"e", "oud", "ctrl+u", "1d", "enter"}, []task{{verb: extendVerb, session: "jupyter", host: "narval", typed: "1d"}}},
		{[]string{"e", "2h", "esc"}, nil},
		{[]string{"e", "enter"}, nil},
		{[]string{"e", "abc", "enter", "2h", "enter"}, []task{{verb: extendVerb, session: "jupyter", host: "narval", typed: "2h"}}},
		{[]string{"j", "e"}, nil}, // its job does not run
		{[]string{"c", "y"}, []task{{verb: cancelVerb, session: "jupyter", host: "narval", jobs: "job 4711"}}},
		{[]string{"j", "c", "Y"}, []task{{verb: cancelVerb, session: "train", host: "narval", jobs: "job 4712"}}},
		{[]string{"c", "n"}, nil},
		{[]string{"c", "enter"}, nil},
		{[]string{"c", "esc"}, nil},
		{[]string{"j", "j", "c", "y"}, []task{{verb: copyVerb, session: "db", host: "rorqual"}}}, // no job, so nothing is asked
		{[]string{"/", "train", "enter", "o"}, []task{{verb: openVerb, session: "train", host: "narval"}}},
		{[]string{"/", "nowhere", "enter", "o"}, nil},
		{[]string{"4", "o"}, nil}, // a host has no page
		{[]string{"enter", "o"}, []task{{verb: openVerb, session: "jupyter", host: "narval"}}},
		{[]string{"?", "o", "c"}, nil},
		{[]string{"l", "d"}, []task{{verb: downVerb, session: "jupyter", host: "narval"}}},
		{[]string{"3", "o"}, []task{{verb: openVerb, session: "jupyter", host: "narval"}}},
	} {
		b := newBench(t, Options{Status: three()})
		b.press(tt.keys...)
		if !reflect.DeepEqual(b.tasks, tt.want) {
			t.Errorf("%q did %+v, want %+v", tt.keys, b.tasks, tt.want)
		}
		if b.quits() {
			t.Errorf("%q quit", tt.keys)
		}
	}
}

func TestStreamsWhileSuspended(t *testing.T) {
	b := newBench(t, Options{Status: three()}).press("3", "ctrl+z").send(statusMsg{three(), noon})
	if want := []stream{{usage: true}, {}}; !reflect.DeepEqual(b.streams, want) {
		t.Errorf("streams %+v, want %+v", b.streams, want)
	}
	b.send(tea.ResumeMsg{})
	if want := []stream{{usage: true}, {}, {usage: true}}; !reflect.DeepEqual(b.streams, want) {
		t.Errorf("streams %+v after it was continued, want %+v", b.streams, want)
	}
}

func TestCancelOfAnotherJob(t *testing.T) {
	b := newBench(t, Options{Status: three()}).press("c")
	st := three()
	another := *st.Sessions[0].Job
	another.ID = "99999"
	st.Sessions[0].Job = &another
	b.send(statusMsg{st, noon}).press("y")
	if len(b.tasks) != 0 {
		t.Errorf("it did %+v", b.tasks)
	}
	b.shows("nothing was cancelled: jupyter no longer has just job 4711")
}

func TestHostInTrouble(t *testing.T) {
	st := three()
	const cause = "narval is not responding since 11:58:00"
	for i := range 2 {
		st.Sessions[i].State, st.Sessions[i].Cause = api.SessionReconnecting, cause
	}
	st.Sessions[2].State, st.Sessions[2].Cause, st.Sessions[2].Hint = api.SessionReady, "", ""
	b := newBench(t, Options{Status: st})
	b.shows("narval, 2 sessions:", "  "+cause+"\n\n  SESSION", "› jupyter  narval   reconnecting")
	if n := strings.Count(b.screen(), cause); n != 1 {
		t.Errorf("it is said %d times on\n%s", n, b.screen())
	}
	b.press("j", "enter").shows("train", cause)
	b.press("esc", "/train", "enter").shows("train", cause)
	st.Sessions[0].State, st.Sessions[1].State, st.Sessions[0].Cause, st.Sessions[1].Cause = api.SessionReady, api.SessionReady, "", ""
	if b.send(statusMsg{st, noon}); strings.Contains(b.screen(), "responding") {
		t.Errorf("after it:\n%s", b.screen())
	}
}

func TestCancelDeclined(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("c", "n").shows("nothing was cancelled; job 4711 keeps running and is charged while it runs")
	b.press("2").send(manyJobs(5)).press("j", "j", "j", "c", "esc").shows("nothing was cancelled; job 4714 is still queued and will run")
	if len(b.tasks) != 0 {
		t.Errorf("it did %+v", b.tasks)
	}
}

func TestOtherJobs(t *testing.T) {
	st := three()
	s := &st.Sessions[0]
	s.Others = []api.Job{{ID: "4799", Host: "rorqual", State: api.JobRunning, End: noon.Add(2 * time.Hour)}}
	b := newBench(t, Options{Status: st})
	b.shows("also: job 4799 on rorqual is running and is charged until 14:00")
	b.press("c").shows("job 4799, running")
	b.press("y").shows("ending job 4711 and job 4799")
	if want := []task{{verb: cancelVerb, session: "jupyter", host: "narval", jobs: "job 4711 and job 4799"}}; !reflect.DeepEqual(b.tasks, want) {
		t.Errorf("did %+v, want %+v", b.tasks, want)
	}
	s.Job = nil // its own one has ended
	newBench(t, Options{Status: st}).press("c").shows("job 4799, running")
}

func TestStreamsOfUseStartAnew(t *testing.T) {
	b := newBench(t, Options{Status: three()}).press("3").send(usageMsg{Session: "jupyter", Time: noon, CPUPercent: percent(1)})
	b.send(endedMsg{stream{usage: true}, errors.New("cut")}, statusMsg{three(), noon.Add(time.Minute)})
	b.send(usageMsg{Session: "jupyter", Time: noon, CPUPercent: percent(1)})
	if list := b.model.usage["jupyter"]; len(list) != 1 {
		t.Errorf("kept %+v", list)
	}
}

func TestCancelWithoutSession(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("2").send(manyJobs(5)).press("o", "c", "y") // the first is that of jupyter
	b.press("G", "o", "c", "y")
	want := []task{
		{verb: openVerb, session: "jupyter", host: "narval"},
		{verb: cancelVerb, session: "jupyter", host: "narval", jobs: "job 4711"},
		{verb: cancelVerb, host: "narval", job: manyJobs(5)[4].Job, jobs: "job 4715"},
	}
	if !reflect.DeepEqual(b.tasks, want) {
		t.Errorf("did %+v, want %+v", b.tasks, want)
	}
	b.press("l")
	if got := b.streams[len(b.streams)-1].log; got != (api.LogQuery{Host: "narval", Job: "4715", Follow: true, Lines: true}) {
		t.Errorf("the log of %+v", got)
	}
}

func TestLogin(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("L", "G", "L", "4", "L")
	if want := []string{"narval", "rorqual", "narval"}; !reflect.DeepEqual(b.logins, want) {
		t.Errorf("logged in to %v, want %v", b.logins, want)
	}
}

func TestCursorStays(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("j")
	st := three()
	st.Sessions = append([]api.Session{{Name: "another", Host: "narval", State: api.SessionDown}}, st.Sessions...)
	b.send(statusMsg{st, noon}).press("u")
	if b.tasks[0].session != "train" {
		t.Errorf("%s was started", b.tasks[0].session)
	}
}

func TestCursorScrolls(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("2").send(manyJobs(203))
	rowOf := func(name string) int {
		for i, line := range strings.Split(b.screen(), "\n") {
			if strings.Contains(line, name) {
				return i
			}
		}
		return -1
	}
	before := rowOf("sweep-09")
	b.press("jjjjj")
	if at := rowOf("sweep-09"); at != before {
		t.Errorf("it moved from line %d to %d:\n%s", before, at, b.screen())
	}
	if screen := b.press("jjjjjj").screen(); !strings.Contains(screen, "12/203") || rowOf("sweep-11") < 0 {
		t.Errorf("which row is chosen?\n%s", screen)
	}
	if keys := newBench(t, Options{Status: three()}).model; strings.Contains(keys.keyLine(), "…") {
		t.Errorf("the keys do not fit 80 columns: %s", keys.keyLine())
	}
}

func TestStreams(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("2", "3", "4", "1", "l", "1", "j", "5", "esc")
	jupyter, train := stream{log: api.LogQuery{Session: "jupyter", Follow: true, Lines: true}}, stream{log: api.LogQuery{Session: "train", Follow: true, Lines: true}}
	if want := []stream{{usage: true}, {}, jupyter, {}, train, {}}; !reflect.DeepEqual(b.streams, want) {
		t.Errorf("%+v\nwant %+v", b.streams, want)
	}
	if want := [][]string{{"narval", "rorqual"}}; !reflect.DeepEqual(b.asked, want) {
		t.Errorf("jobs of %v, want %v", b.asked, want)
	}
	b.send(logMsg{jupyter, logged("late")}, usageMsg{Session: "jupyter", Time: noon})
	if len(b.model.usage) > 0 || len(b.model.log.lines) > 0 {
		t.Error("what came late was kept")
	}
}

func TestJobsAreReadAgain(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("2")
	for second := range 11 {
		b.send(statusMsg{three(), noon.Add(time.Duration(second) * time.Second)})
	}
	b.press("1")
	b.send(statusMsg{three(), noon.Add(time.Minute)})
	if len(b.asked) != 3 {
		t.Errorf("read %d times in ten seconds, want 3", len(b.asked))
	}
}

func TestStreamsRetry(t *testing.T) {
	failed := errors.New("not connected")
	b := newBench(t, Options{Status: three()})
	b.press("l").send(logMsg{b.model.open, logged("epoch 1")}, endedMsg{b.model.open, failed})
	b.shows("epoch 1", "✗ not connected")
	b.send(statusMsg{three(), noon.Add(time.Second)}, statusMsg{three(), noon.Add(6 * time.Second)}, statusMsg{three(), noon.Add(7 * time.Second)})
	if len(b.streams) != 2 {
		t.Errorf("opened %d times, want 2", len(b.streams))
	}
	b.send(logMsg{b.model.open, logged("epoch 1")})
	if strings.Count(b.screen(), "epoch 1") != 1 {
		t.Errorf("not once:\n%s", b.screen())
	}
	b = newBench(t, Options{Status: api.Status{Hosts: three().Hosts}})
	b.press("2").send(manyJobs(1)).press("l").send(endedMsg{b.model.open, failed})
	b.send(statusMsg{three(), noon.Add(time.Minute)})
	if len(b.streams) != 1 {
		t.Error("the scheduler was asked for the log's path without a key")
	}
}

func TestStreamsAgain(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("l").send(logMsg{b.model.open, logged("epoch 1")}, endedMsg{b.model.open, nil}, statusMsg{three(), noon.Add(time.Minute)})
	if len(b.streams) != 2 {
		t.Error("the log is not followed after the agent was away")
	}
	b.send(logMsg{b.model.open, api.LogChunk{Ended: "job 206 finished"}}, endedMsg{b.model.open, nil}, statusMsg{three(), noon.Add(2 * time.Minute)})
	if b.shows("job 206 finished: the log is complete"); len(b.streams) != 2 {
		t.Error("a log that is complete is read again")
	}
}

func TestSessionAlone(t *testing.T) {
	b := newBench(t, Options{Status: three(), Session: "train"})
	b.shows("train")
	if strings.Contains(b.screen(), "jupyter") {
		t.Error(b.screen())
	}
	b.press("4")
	if b.shows("narval"); strings.Contains(b.screen(), "rorqual") {
		t.Error(b.screen())
	}
	b.press("1").send(statusMsg{api.Status{}, noon})
	b.shows("there is no session train any more")
}

func TestUseKept(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("3")
	for minute := range 90 {
		b.send(usageMsg{Session: "jupyter", Time: noon.Add(time.Duration(minute) * time.Minute), CPUPercent: percent(float64(minute))})
	}
	if list := b.model.usage["jupyter"]; len(list) != 61 {
		t.Errorf("kept %d measurements", len(list))
	}
	b.shows("89 %")
	b.send(endedMsg{b.model.open, errors.New("the agent is too old")})
	b.shows("✗ the agent is too old")
}

func TestPageOfALog(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	b.press("l")
	add := func(n int) {
		for i := range n {
			b.send(logMsg{b.model.open, logged(fmt.Sprintf("line %d.", i))})
		}
	}
	add(100)
	b.shows("line 99.")
	b.press("g")
	add(50)
	b.shows("line 0.", "G shows what is new")
	b.press("G")
	b.shows("line 49.")
	b.press("/", "line 77.", "enter")
	b.shows("line 77.")
	if strings.Contains(b.screen(), "line 78.") {
		t.Error(b.screen())
	}
}

func TestQuit(t *testing.T) {
	b := newBench(t, Options{Status: three()})
	if b.press("e", "q"); b.quits() {
		t.Error("a q in an answer quit")
	}
	if b.press("esc", "q"); !b.quits() || b.model.end != nil {
		t.Error("q did not quit")
	}
	b = newBench(t, Options{Status: three()})
	if b.press("e", "ctrl+c"); !b.quits() || !errors.Is(b.model.end, ErrInterrupted) {
		t.Error("Ctrl-C did not interrupt a question")
	}
	stopped := errors.New("the agent has stopped")
	if b.send(endMsg{stopped}); !b.quits() || !errors.Is(b.model.end, stopped) {
		t.Error("the screen outlives the agent")
	}
}

// quits reports whether the last message ended the screen.
func (b *bench) quits() bool { return b.command != nil && b.command() == tea.Msg(tea.QuitMsg{}) }

// TestScreensOfHostileText puts escape sequences wherever a host, a job or a
// log may.
func TestScreensOfHostileText(t *testing.T) {
	const bad = "x\x1b]0;owned\x07\x1b[2J\x1b[1;1H\u009b2J\u202e\x00\x08\x7f"
	job := &api.Job{ID: "1" + bad, Name: bad, State: api.JobRunning, Node: bad, Reason: bad, Hint: bad}
	st := api.Status{
		Sessions: []api.Session{
			{Name: "s", Host: bad, State: api.SessionReady, Cause: bad, Hint: bad, URL: bad, Job: job},
			{Name: "a", Host: bad, State: api.SessionConnecting, Cause: bad, Hint: bad},
			{Name: "b", Host: bad, State: api.SessionConnecting, Cause: bad, Hint: bad},
		},
		Hosts: []api.Host{{Alias: bad, Hostname: bad, State: api.HostUp, Cause: bad}},
	}
	o := Options{Status: st}
	b := newBench(t, o)
	check := func(what string) {
		t.Helper()
		if strings.ContainsAny(b.screen(), "\x1b\u009b\x00\x07\x08\x7f\r") || what != "details" && strings.Contains(b.screen(), "\u202e") {
			t.Errorf("%s: %q", what, b.screen())
		}
		if b.model.View().WindowTitle != "" {
			t.Errorf("%s sets the title", what)
		}
	}
	check("sessions")
	check(b.press("enter").screenName("details"))
	check(b.press("esc", "c").screenName("a question"))
	check(b.press("n").screenName("a message"))
	check(b.send(noticeMsg(bad)).screenName("a notice"))
	check(b.send(actedMsg{err: &api.Error{Message: bad, Hint: bad}}).screenName("an error"))
	check(b.send(actedMsg{result: result{text: bad}}).screenName("a result"))
	check(b.press("2").send(jobsMsg{{Host: bad, Job: *job}}).screenName("jobs"))
	check(b.press("4").screenName("hosts"))
	b.press("1l")
	check(b.send(logMsg{b.model.open, api.LogChunk{Path: bad, Restarted: true}}).screenName("a log that starts again"))
	check(b.send(endedMsg{b.model.open, errors.New(bad)}).screenName("the end of a log"))
	b.press("/")
	check(b.send(tea.PasteMsg{Content: bad}).screenName("a filter"))
}

func TestKeysInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/dashboard.md")
	must.Do(t, err)
	for _, k := range allKeys {
		if !strings.Contains(string(page), "`"+k.Help().Key+"`") || !strings.Contains(string(page), k.Help().Desc) {
			t.Errorf("docs/dashboard.md does not have %s: %s", k.Help().Key, k.Help().Desc)
		}
	}
}

func (b *bench) screenName(name string) string { return name }

func TestScreensWithColours(t *testing.T) {
	plain := newBench(t, Options{Status: three()})
	coloured := newBench(t, Options{Status: three()})
	coloured.model.colours = true
	strip := func(text string) string {
		var out strings.Builder
		for i, part := range strings.Split(text, "\x1b[") {
			if i > 0 {
				_, part, _ = strings.Cut(part, "m")
			}
			out.WriteString(part)
		}
		return out.String()
	}
	trim := func(text string) string {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		return strings.Join(lines, "\n")
	}
	if strings.Contains(plain.screen(), "\x1b") || !strings.Contains(coloured.screen(), "\x1b[7m") {
		t.Error("colours where none are wanted, or none")
	}
	if a, b := trim(plain.screen()), trim(strip(coloured.screen())); a != b {
		t.Errorf("without colours:\n%s\nwith:\n%s", a, b)
	}
	plain.shows("› jupyter")
}
