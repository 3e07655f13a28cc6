package tray

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/dev/must"
)

// screen is a display in memory.
type screen struct {
	clicks chan choice
	mu     sync.Mutex
	menu   menu
}

func (s *screen) Clicks() <-chan choice { return s.clicks }

func (s *screen) Show(m menu) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.menu = m
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return render(s.menu)
}

// script is an agent that plays what the test sends and writes down what it is asked.
type script struct {
	events chan api.Event // an empty one: the agent goes
	mu     sync.Mutex
	asked  []string
	say    func(request string) // is told each request; may be nil
	err    error
	fails  string // the only word that gets err; "": every one
}

func (s *script) note(words ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := strings.Join(words, " ")
	s.asked = append(s.asked, request)
	if s.say != nil {
		s.say(request)
	}
	if s.fails != "" && s.fails != words[0] {
		return nil
	}
	return s.err
}

func (s *script) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *script) Watch(ctx context.Context, each func(api.Event)) error {
	for {
		select {
		case e := <-s.events:
			if e.Type == "" {
				return errors.New("the agent is gone")
			}
			each(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *script) Up(_ context.Context, req api.UpRequest) (api.UpResponse, error) {
	switch {
	case req.Adopt:
		return api.UpResponse{}, s.note("adopt", req.Session)
	case req.With != nil:
		return api.UpResponse{}, s.note("up", req.Session, req.With.String())
	}
	return api.UpResponse{}, s.note("up", req.Session)
}

func (s *script) Down(_ context.Context, req api.DownRequest) (api.DownResponse, error) {
	if req.Cancel {
		return api.DownResponse{}, s.note("cancel", req.Session)
	}
	return api.DownResponse{}, s.note("down", req.Session)
}

func (s *script) Page(_ context.Context, name string) (api.OpenResponse, error) {
	page := api.OpenResponse{URL: "http://localhost:8888/" + name + "?token=s3cr3t"}
	switch name {
	case "rstudio":
		page.User, page.Password = "ann", "Zm9vYmFy"
	case "paraview":
		page = api.OpenResponse{URL: "cs://localhost:11111", App: name}
	}
	return page, s.note("page", name)
}

func (s *script) EndpointPage(_ context.Context, session, name string) (api.OpenResponse, error) {
	page := api.OpenResponse{URL: "http://localhost:8889/" + name + "?token=s3cr3t"}
	if name == "rstudio" {
		page.User, page.Password = "ann", "Zm9vYmFy"
	}
	return page, s.note("endpoint", session, name)
}

func (s *script) Extend(_ context.Context, req api.ExtendRequest) (api.Job, error) {
	by := time.Duration(req.Seconds) * time.Second
	if req.Idle {
		return api.Job{ID: "1001", End: noon}, s.note("keep", req.Session)
	}
	return api.Job{ID: "1001", End: noon.Add(by)}, s.note("extend", req.Session, by.String())
}

func (s *script) Answer(_ context.Context, id string, a api.Answer) error {
	if a.Cancelled {
		return s.note("answer", id, "cancelled")
	}
	return s.note("answer", id, a.Text)
}

// options have everything done by the script.
func (s *script) options() Options {
	do := func(verb string) func(context.Context, string) error {
		return func(_ context.Context, what string) error { return s.note(verb, what) }
	}
	return Options{
		Agent: s, Autostart: &switchOnOff{}, Log: slog.New(slog.DiscardHandler),
		StartAgent: func(context.Context) error { return s.note("start") },
		Dashboard:  func(context.Context) error { return s.note("dashboard") },
		Login:      do("login"),
		Logout:     do("logout"),
		desk: &desk{
			Desktop: action.Desktop{Open: do("browse"), Copy: do("copy")}, edit: do("edit"), show: do("show"), ask: desktop.Ask,
			terminal: func(_ context.Context, args ...string) error { return s.note(append([]string{"terminal"}, args...)...) },
		},
	}
}

// notes is a desktop's notifications.
type notes chan desktop.Note

func (n notes) Notify(_ context.Context, note desktop.Note) error {
	n <- note
	return nil
}

// Withdraw is written down as a note of that tag alone.
func (n notes) Withdraw(_ context.Context, tag string) error {
	n <- desktop.Note{Tag: tag}
	return nil
}

// dialogs are questions that the test answers.
type dialogs struct {
	asked   chan desktop.Question
	answers chan string // "" is cancelled
	failing error
}

func (d *dialogs) ask(ctx context.Context, q desktop.Question) (string, error) {
	if d.failing != nil {
		return "", d.failing
	}
	d.asked <- q
	select {
	case text := <-d.answers:
		if text == "" {
			return "", desktop.ErrCancelled
		}
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// switchOnOff is start at login as a lamp.
type switchOnOff struct{ on bool }

func (s *switchOnOff) IsOn(context.Context) (bool, error) { return s.on, nil }

func (s *switchOnOff) On(context.Context) error {
	s.on = true
	return nil
}

func (s *switchOnOff) Off(context.Context) error {
	s.on = false
	return nil
}

// stage is a controller with a fake of everything around it.
type stage struct {
	*script
	*screen
	dialogs
	notes  notes
	quit   bool
	config string
	page   string // the last that was shown

	restarts atomic.Int32 // how often an agent that is gone was looked after
	end      func()       // of the tray
}

// all is what the config wants to be notified of.
func all(string) bool { return true }

// play is a test with a controller in a bubble of its own time.
func play(act func(t *testing.T, s *stage)) func(t *testing.T) {
	return func(t *testing.T) { runPlay(t, act) }
}

func runPlay(t *testing.T, act func(t *testing.T, s *stage)) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.toml")
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			script:  &script{events: make(chan api.Event)},
			screen:  &screen{clicks: make(chan choice)},
			dialogs: dialogs{asked: make(chan desktop.Question, 16), answers: make(chan string)},
			notes:   make(notes, 16),
			config:  config,
		}
		o := s.options()
		o.ConfigPath, o.Notify = config, all
		o.RestartAgent = func(context.Context) error {
			s.restarts.Add(1)
			return nil
		}
		o.desk.ask = s.ask
		o.desk.show = func(_ context.Context, path string) error {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "<title>tunctl") {
				t.Errorf("the page is %q, %v", text, err)
			}
			s.page = string(text)
			return s.note("show", filepath.Base(path))
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := newController(o, s.screen, func() { s.quit = true })
		c.notifier = s.notes
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Serve(ctx)
		}()
		synctest.Wait()
		s.end = cancel
		act(t, s)
		cancel()
		<-done
		if c.pages != "" {
			if _, err := os.Stat(c.pages); err == nil {
				t.Errorf("a page was left at %s", c.pages)
			}
		}
	})
}

func TestController(t *testing.T) {
	t.Run("restarts an agent that crashed within seconds", play(func(t *testing.T, s *stage) {
		s.status(statuses["ready"])
		time.Sleep(time.Hour)
		if n := s.restarts.Load(); n != 0 {
			t.Errorf("a running agent was restarted %d times", n)
		}
		s.events <- api.Event{} // it crashes
		time.Sleep(retryFirst + time.Millisecond)
		if n := s.restarts.Load(); n != 1 {
			t.Errorf("%d restarts after %v, want 1", n, retryFirst)
		}
	}))
	t.Run("does what each entry says", play(func(t *testing.T, s *stage) {
		must.Do(t, os.WriteFile(s.config, nil, 0o600))
		v := statuses["several-ready"]
		nb := session("nb", api.SessionDown)
		nb.Recent = []api.Choices{{"gpus": "1", "hours": "8"}, {"hours": "8"}}
		v.Status.Sessions = append(slices.Clone(v.Status.Sessions), nb)
		s.status(v)
		secret := "http://localhost:8888/%?token=s3cr3t"
		whole := func(name string) string { return strings.Replace(secret, "%", name, 1) }
		want := map[string][]string{
			"top-open:jupyter":   {"page jupyter", "browse " + whole("jupyter")},
			"open:my_board":      {"page my_board", "browse " + whole("my_board")},
			"open":               {"page my_board", "browse " + whole("my_board")},
			"open:jupyter/dask":  {"endpoint jupyter dask", "browse http://localhost:8889/dask?token=s3cr3t"},
			"copy:jupyter":       {"page jupyter", "copy " + whole("jupyter")},
			"log:jupyter":        {"terminal logs -f jupyter"},
			"up:jupyter":         {"up jupyter"},
			"reconnect:jupyter":  {"adopt jupyter"},
			"top-reconnect:nb":   {"adopt nb"},
			"up-with:nb/hours=8": {"up nb hours=8"},
			"up-with:nb/hours=9": nil, // no longer there
			"down:jupyter":       {"down jupyter"},
			"cancel:jupyter":     {"cancel jupyter"},
			"extend:jupyter":     {"extend jupyter 1h0m0s"},
			"keep:jupyter":       nil, // nothing ends it
			"login:narval":       {"login narval"},
			"logout:narval":      {"logout narval"},
			"start-agent":        {"start"},
			"settings":           {"edit " + s.config},
			"setup":              {"terminal init"},
			"ask:narval":         {"terminal login narval"},
			"trouble:db":         {"show details.html"},
			"top-login:x":        {"login x"},
			"top-up:jupyter":     {"up jupyter"},
			"help":               {"show help.html"},
			"status":             nil,
		}
		for id, calls := range want {
			before := len(s.heard())
			s.click(id)
			if got := s.heard()[before:]; !slices.Equal(got, calls) {
				t.Errorf("%q did %q, want %q", id, got, calls)
			}
		}
		s.click(verbAutostart.name)
		if !strings.Contains(s.shown(), "✓ Launch at startup") {
			t.Errorf("start at login is not ticked:\n%s", s.shown())
		}
		s.click(verbAutostart.name)
		if strings.Contains(s.shown(), "✓") {
			t.Errorf("start at login is still ticked:\n%s", s.shown())
		}
		s.click(verbQuit.name)
		if !s.quit {
			t.Error("Quit did not quit")
		}
	}))
	t.Run("follows the events", play(func(t *testing.T, s *stage) {
		line := func() string {
			_, rest, _ := strings.Cut(s.shown(), "tooltip: tunctl · ")
			text, _, _ := strings.Cut(rest, "\n")
			return text
		}
		send := func(e api.Event) {
			s.events <- e
			synctest.Wait()
		}
		expect := func(want string) {
			t.Helper()
			if got := line(); got != want {
				t.Errorf("the tooltip is %q, want %q", got, want)
			}
		}
		expect("the background agent is not running")
		s.status(statuses["down"])
		expect("jupyter: down")
		changed := session("jupyter", api.SessionConnecting)
		send(api.Event{Type: api.EventSession, Session: &changed})
		expect("jupyter: connecting to narval")
		added := session("db", api.SessionReady)
		send(api.Event{Type: api.EventSession, Session: &added})
		expect("db: ready")
		send(api.Event{Type: api.EventSessionGone, Session: &added})
		expect("jupyter: connecting to narval")
		send(api.Event{Type: api.EventHost, Host: &api.Host{Alias: "narval", State: api.HostWaiting, Cause: "no network"}})
		if !strings.Contains(s.shown(), "narval: waiting: no network") {
			t.Errorf("the host's change does not show:\n%s", s.shown())
		}
		send(api.Event{}) // the agent goes
		expect("the background agent is not running")
		s.status(reached(nil, session("jupyter", api.SessionReady))) // and is found again
		expect("jupyter: ready")
	}))
	t.Run("redraws the time left without events", play(func(t *testing.T, s *stage) {
		end := func(j *api.Job) { j.End = time.Now().Add(time.Hour) }
		s.status(reached(nil, session("jupyter", api.SessionReady, page, job(end))))
		time.Sleep(20 * time.Minute) // the bubble's time
		synctest.Wait()
		if !strings.Contains(s.shown(), "jupyter: ready, 40 min left") {
			t.Errorf("after 20 minutes of an hour:\n%s", s.shown())
		}
	}))
	t.Run("shows a session that was added to the config", play(func(t *testing.T, s *stage) {
		s.status(statuses["no-session"])
		v := statuses["down"]
		s.status(v) // the agent publishes its whole status after a reload
		if !strings.Contains(s.shown(), "jupyter: down  [session:jupyter]") {
			t.Errorf("the menu is\n%s", s.shown())
		}
		if len(s.notes) != 0 {
			t.Errorf("told %+v", <-s.notes)
		}
	}))
}

// status plays a status event.
func (s *stage) status(v view) {
	// The tray changes its own.
	v.Status.Sessions, v.Status.Hosts = slices.Clone(v.Status.Sessions), slices.Clone(v.Status.Hosts)
	s.events <- api.Event{Type: api.EventStatus, Status: &v.Status}
	synctest.Wait()
}

// verbs are all that do something.
var verbs = []verb{
	verbOpen, verbCopy, verbLog, verbUp, verbReconnect, verbUpWith, verbDown, verbCancel, verbAnswer, verbExtend, verbKeep, verbAskEnd,
	verbEnd, verbTrouble, verbDetails, verbLogin, verbAsk, verbLogout, verbStartAgent, verbSetup, verbDashboard, verbAutostart, verbSettings, verbHelp, verbQuit,
}

// click clicks the entry that is written TOP-VERB:NAME/PART.
func (s *stage) click(id string) {
	id, top := strings.CutPrefix(id, "top-")
	does, name, _ := strings.Cut(id, ":")
	c := choice{top: top, verb: verb{name: does}, name: name}
	if i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == does }); i >= 0 {
		c.verb = verbs[i]
	}
	if c.verb == verbOpen || c.verb == verbUpWith {
		c.name, c.part, _ = strings.Cut(c.name, "/")
	}
	s.clicks <- c
	synctest.Wait()
}

// notice plays a notice of the agent.
func (s *stage) notice(n api.Notice) {
	s.events <- api.Event{Type: api.EventNotice, Notice: &n}
	synctest.Wait()
}

// press presses a button of a notification.
func (s *stage) press(n desktop.Note, button int) {
	n.Actions[button].Do()
	synctest.Wait()
}

// did checks all that was requested of the agent and the desktop so far.
func (s *stage) did(t *testing.T, want ...string) {
	t.Helper()
	if got := s.heard(); !slices.Equal(got, want) {
		t.Errorf("did %q, want %q", got, want)
	}
}

// withdrawn checks that the notification of a tag was just removed.
func (s *stage) withdrawn(t *testing.T, tag string) {
	t.Helper()
	if n := s.told(t); n.Tag != tag || n.Title != "" {
		t.Errorf("%s was not withdrawn, but %+v came", tag, n)
	}
}

// told is the notification that was just shown.
func (s *stage) told(t *testing.T) desktop.Note {
	t.Helper()
	select {
	case n := <-s.notes:
		return n
	default:
		t.Fatal("no notification came")
		return desktop.Note{}
	}
}

func TestPage(t *testing.T) {
	t.Run("opens after a start from the menu", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		s.click("up:jupyter")
		s.status(statuses["starting"])
		time.Sleep(30 * time.Second)
		s.status(reached(nil, session("jupyter", api.SessionReady, page)))
		s.did(t, "up jupyter", "page jupyter", "browse http://localhost:8888/jupyter?token=s3cr3t")
		if len(s.notes) != 0 {
			t.Errorf("a notification came as well: %+v", <-s.notes)
		}
	}))
	t.Run("has its password on the clipboard", play(func(t *testing.T, s *stage) {
		s.status(reached(nil, session("rstudio", api.SessionReady, page)))
		s.click("open:rstudio")
		s.did(t, "page rstudio", "browse http://localhost:8888/rstudio?token=s3cr3t", "copy Zm9vYmFy")
		n := s.told(t)
		if n.Title != "rstudio is ready" || !strings.Contains(n.Body, "clipboard") || !strings.Contains(n.Body, "ann") || strings.Contains(n.Body, "Zm9v") {
			t.Errorf("the notification is %+v", n)
		}
	}))
	t.Run("has a command for a password that cannot be copied", play(func(t *testing.T, s *stage) {
		s.status(reached(nil, session("rstudio", api.SessionReady, page)))
		s.err, s.fails = errors.New("no clipboard"), "copy"
		for id, command := range map[string]string{
			"open:rstudio":         "`tunctl open rstudio --print`",
			"open:jupyter/rstudio": "`tunctl open jupyter --which rstudio --print`",
		} {
			s.click(id)
			n := s.told(t)
			if !strings.HasSuffix(n.Title, " is ready") || !strings.Contains(n.Body, command) || !strings.Contains(n.Body, "ann") || strings.Contains(n.Body, "clipboard") {
				t.Errorf("%s: the notification is %+v", id, n)
			}
		}
	}))
	t.Run("is explained where there is none", play(func(t *testing.T, s *stage) {
		s.status(reached(nil, session("paraview", api.SessionReady, page)))
		s.click("open:paraview")
		s.did(t, "page paraview")
		if n := s.told(t); !strings.Contains(n.Body, "connect ParaView to localhost:11111") {
			t.Errorf("the notification is %+v", n)
		}
	}))
}

func TestButton(t *testing.T) {
	t.Run("acts", play(func(t *testing.T, s *stage) {
		s.status(statuses["down"])
		s.status(statuses["queued-unknown"])
		time.Sleep(time.Hour)
		s.status(reached(nil, session("jupyter", api.SessionReady, page)))
		n := s.told(t)
		if n.Title != "jupyter is ready" || len(n.Actions) != 1 || n.Actions[0].Label != "Open" {
			t.Fatalf("the notification is %+v", n)
		}
		s.press(n, 0)
		if got := s.heard(); !slices.Contains(got, "browse http://localhost:8888/jupyter?token=s3cr3t") {
			t.Errorf("its button did %q", got)
		}
	}))
	t.Run("offers the setup without a config", play(func(t *testing.T, s *stage) {
		s.status(statuses["no-session"])
		s.click(verbSettings.name)
		n := s.told(t)
		if len(n.Actions) != 1 || n.Actions[0].Label != "Set up…" {
			t.Fatalf("told %+v", n)
		}
		s.press(n, 0)
		s.did(t, "terminal init")
	}))
}

func TestFailure(t *testing.T) {
	t.Run("is told, and a page says more", play(func(t *testing.T, s *stage) {
		s.status(statuses["ready"])
		for _, tt := range []struct {
			err               error
			entry             string
			title, body, page string
		}{
			{
				errors.New("no page at http://localhost:8888/?token=s3cr3t"), "open:jupyter",
				"Could not open jupyter", "No page at http://localhost:8888/?token=•••. In a terminal: tunctl open jupyter", "<code>tunctl open jupyter</code> does the same",
			},
			{
				&api.Error{Message: "narval is blocked", Hint: "wait an hour, then `tunctl login narval`"}, "top-up:jupyter",
				"Could not start jupyter", "Narval is blocked.", "wait an hour, then <code>tunctl login narval</code>",
			},
			{
				errors.New("no browser found"), "trouble:jupyter",
				"Could not show the details of jupyter", "No browser found.", "no browser found",
			},
			{
				errors.New("no browser found"), "details:open:jupyter",
				"Could not show the details", "No browser found.", "no browser found",
			},
		} {
			s.err = tt.err
			s.click(tt.entry)
			n := s.told(t)
			if n.Title != tt.title || n.Body != tt.body || len(n.Actions) != 1 || n.Actions[0].Label != "Show details" {
				t.Fatalf("told %+v", n)
			}
			s.err = nil
			s.press(n, 0)
			if !strings.Contains(s.page, tt.page) || strings.Contains(s.page, "s3cr3t") {
				t.Errorf("no %q in the page %s", tt.page, s.page)
			}
		}
	}))
	t.Run("is withdrawn when the next try works", play(func(t *testing.T, s *stage) {
		s.status(statuses["ready"])
		s.err = errors.New("no browser found")
		s.click("open:jupyter")
		if n := s.told(t); n.Title != "Could not open jupyter" {
			t.Fatalf("told %+v", n)
		}
		s.err = nil
		s.click("open:jupyter")
		s.withdrawn(t, ":open:jupyter")
	}))
	t.Run("of a session has the log and what to do", play(func(t *testing.T, s *stage) {
		failed := session("jupyter", api.SessionFailed, dueTo("the job failed (job 7); its log ends with:\nsrun: <error>\ntoken=s3cr3t"))
		failed.Hint = "fix the job script; `tunctl logs jupyter` shows the whole log"
		s.status(reached(nil, failed))
		s.click("top-trouble:jupyter")
		for _, want := range []string{
			"<h1>jupyter failed</h1>", "The job failed (job 7); its log ends with:", "srun: &lt;error&gt;\n", "<code>tunctl logs jupyter</code>",
			"<b>jupyter ▸ Start</b>",
		} {
			if !strings.Contains(s.page, want) {
				t.Errorf("no %q in the page %s", want, s.page)
			}
		}
		if strings.Contains(s.page, "s3cr3t") {
			t.Error("the page shows a token")
		}
	}))
}

func TestControllerUnwantedNotification(t *testing.T) {
	o := Options{Notify: func(kind string) bool { return kind != kindNeedsLogin }}
	c := newController(o, &screen{}, func() {})
	c.notifier = make(notes)
	c.view = statuses["needs-login"]
	c.announceChanges(t.Context(), noon)
	if len(c.outbox) != 0 {
		t.Errorf("%d were shown", len(c.outbox))
	}
}

func TestControllerUnchangedMenu(t *testing.T) {
	c := newController(Options{}, &screen{}, func() {})
	c.view = statuses["down"]
	c.redraw(noon)
	drawn := c.shown
	c.display.(*screen).menu = menu{}
	c.redraw(noon)
	if got := c.display.(*screen).menu; !reflect.DeepEqual(got, menu{}) || reflect.DeepEqual(drawn, menu{}) {
		t.Errorf("the same menu was drawn twice: %v", got)
	}
}
