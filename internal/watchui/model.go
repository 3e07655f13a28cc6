package watchui

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/lists"
)

const (
	jobsEvery  = 5 * time.Second // the schedulers are asked once a minute anyway
	retryAfter = 5 * time.Second // a stream that failed
	usageSpan  = time.Hour
)

// model is the screen as a function of messages. What they cause outside is in do.
type model struct {
	options       Options
	do            effects
	colours       bool
	width, height int
	now           time.Time

	status api.Status
	lost   bool // the agent has stopped, and the status is its last
	jobs   []api.HostJob
	jobsAt time.Time // when they were requested
	usage  map[string][]api.Usage
	open   stream // what the agent sends now
	ended  endedMsg
	lastAt time.Time // when it ended
	log    logTail

	view    viewKind
	from    viewKind               // the view that the log was opened from
	chosen  [len(viewNames)]string // the key of the chosen row
	first   [len(viewNames)]int    // the first row that is shown
	logOf   target
	filter  string
	details bool // of the chosen row are shown
	help    bool
	top     int  // the first line of the log, the details or the help
	tail    bool // the log's end is followed

	suspended bool // nobody looks, until the shell continues it

	asking  *question
	message string
	failed  bool // the message is an error

	end error // why it ended; nil by q
}

// effects are what the model causes. None of them blocks.
type effects struct {
	follow func(stream)
	jobs   func(hosts []string)
	act    func(task)
	login  func(host string) tea.Cmd
	// suspend stops the program, once the agent knows that nobody looks; nil: it cannot.
	suspend func() tea.Cmd
}

// question is asked in the line above the keys. A filter is kept while it is typed.
type question struct {
	text   string
	typed  string
	yes    bool // it is answered by y or n alone
	filter bool
	task   task
}

// target is what a key acts on.
type target struct {
	session *api.Session
	host    string
	job     *api.Job
}

// newModel is the screen before the first message.
func newModel(o Options, colours bool, now time.Time) model {
	m := model{options: o, colours: colours, now: now, usage: map[string][]api.Usage{}, width: 80, height: 24, tail: true}
	m.do = effects{follow: func(stream) {}, jobs: func([]string) {}, act: func(task) {}, login: func(string) tea.Cmd { return nil }, suspend: func() tea.Cmd { return nil }}
	m.setStatus(o.Status)
	return m
}

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case statusMsg:
		if m.lost {
			m.say("the agent runs again")
		}
		m.now, m.lost = msg.now, false
		m.setStatus(msg.status)
		m.again()
	case jobsMsg:
		m.jobs = msg
	case usageMsg:
		if m.open.usage {
			m.addUsage(api.Usage(msg))
		}
	case logMsg:
		if msg.of == m.open {
			before := m.log.first()
			m.log.add(msg.chunk)
			m.top = max(0, m.top-(m.log.first()-before)) // the lines stay where they are read
		}
	case endedMsg:
		if msg.of == m.open {
			m.ended, m.lastAt = msg, m.now
		}
	case lostMsg:
		m.lost = true
	case noticeMsg:
		m.say("! " + string(msg))
	case actedMsg:
		cmd = m.acted(msg)
	case endMsg:
		m.end = msg.err
		return m, tea.Quit
	case tea.ResumeMsg:
		m.suspended = false
	case tea.PasteMsg:
		m.typeText(msg.Content)
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	}
	m.follow()
	m.scroll()
	return m, cmd
}

// setStatus takes over what the agent reports, of the only session if one was named.
func (m *model) setStatus(st api.Status) {
	if name := m.options.Session; name != "" {
		if s, ok := st.Session(name); ok {
			st = st.Only(s)
		} else {
			st.Sessions, st.Hosts = nil, nil
		}
	}
	m.status = st
	if m.view == jobsView && m.now.Sub(m.jobsAt) >= jobsEvery {
		m.readJobs()
	}
}

func (m *model) readJobs() {
	m.jobsAt = m.now
	hosts := lists.Map(m.status.Hosts, func(h api.Host) string { return h.Alias })
	for _, s := range m.status.Sessions { // of a host that is not connected yet
		if !slices.Contains(hosts, s.Host) {
			hosts = append(hosts, s.Host)
		}
	}
	m.do.jobs(hosts)
}

func (m *model) addUsage(u api.Usage) {
	list := m.usage[u.Session]
	old := 0
	for old < len(list) && list[old].Time.Before(u.Time.Add(-usageSpan)) {
		old++
	}
	m.usage[u.Session] = append(list[old:len(list):len(list)], u)
}

// follow has the agent send what the view shows, and nothing else.
func (m *model) follow() {
	want := stream{}
	switch {
	case m.suspended:
	case m.view == useView:
		want.usage = true
	case m.view == logView:
		want.log = m.logOf.query()
	}
	if want == m.open {
		return
	}
	m.open, m.ended = want, endedMsg{}
	m.log, m.tail = logTail{}, true
	clear(m.usage) // a new stream begins with the last hour
	m.do.follow(want)
}

// again opens a stream that failed once more, unless that would ask a scheduler.
func (m *model) again() {
	if m.ended.err == nil || m.open.log.Job != "" || m.now.Sub(m.lastAt) < retryAfter {
		return
	}
	m.ended, m.log = endedMsg{}, logTail{} // it starts from the beginning
	clear(m.usage)
	m.do.follow(m.open)
}

// query asks for the log of a session or, of a job without one, of the job.
func (t target) query() api.LogQuery {
	switch {
	case t.session != nil:
		return api.LogQuery{Session: t.session.Name, Follow: true}
	case t.job != nil:
		return api.LogQuery{Host: t.host, Job: t.job.Ref(), Follow: true}
	}
	return api.LogQuery{}
}

// press is a key.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "ctrl+c":
		m.end = ErrInterrupted
		return tea.Quit
	case "ctrl+z":
		cmd := m.do.suspend()
		m.suspended = cmd != nil
		return cmd
	}
	if m.asking != nil {
		m.answer(k)
		return nil
	}
	m.message = ""
	switch {
	case key.Matches(k, keyQuit):
		return tea.Quit
	case key.Matches(k, keyHelp):
		m.help, m.details = !m.help, false
		m.openPage()
	case key.Matches(k, keyBack):
		m.back()
	case key.Matches(k, keyViews):
		m.show(viewKind(k.String()[0] - '1'))
	case key.Matches(k, keyFilter):
		m.help, m.details = false, false
		m.asking = &question{text: "/", typed: m.filter, filter: true}
	case m.details && key.Matches(k, keyDetails):
		m.details = false
	case m.onPage():
		m.scrollPage(k)
	case key.Matches(k, moveKeys...):
		m.move(k)
	case key.Matches(k, keyDetails):
		m.details = len(m.rows()) > 0
		m.openPage()
	}
	if m.help {
		return nil
	}
	return m.command(k)
}

// back closes what is open.
func (m *model) back() {
	switch {
	case m.help || m.details:
		m.help, m.details = false, false
	case m.filter != "":
		m.filter = ""
	case m.view == logView:
		m.show(m.from)
	}
}

// show changes the view. The log is that of the row that is chosen now.
func (m *model) show(v viewKind) {
	if v == logView && m.view != logView {
		if m.view == hostsView { // which have no log
			m.view = sessionsView
		}
		m.logOf, m.from = m.target(), m.view
	}
	m.help, m.details, m.filter = false, false, ""
	m.view = v
	if v == jobsView {
		m.readJobs()
	}
}

// command is a key that acts on the chosen row.
func (m *model) command(k tea.KeyPressMsg) tea.Cmd {
	t := m.target()
	switch {
	case key.Matches(k, keyLog):
		if t.query() == (api.LogQuery{}) {
			m.fail("choose a session or a job first: 1 or 2 lists them")
			return nil
		}
		m.show(logView)
	case key.Matches(k, keyLogin):
		if t.host == "" {
			m.fail("choose a session or a host first: 1 or 4 lists them")
			return nil
		}
		return m.do.login(t.host)
	case key.Matches(k, keyCancel):
		m.askCancel(t)
	case key.Matches(k, keyOpen, keyCopy, keyStart, keyStop, keyExtend):
		if t.session == nil {
			m.fail("choose a session first: 1 lists them")
			return nil
		}
		m.sessionCommand(k.String(), *t.session)
	}
	return nil
}

// sessionKeys are the keys that act on a session at once, and what is said meanwhile.
var sessionKeys = map[string]struct {
	verb      verb
	meanwhile string
}{
	"o": {openVerb, "opening the page of "}, "y": {copyVerb, "copying the address of "}, "u": {upVerb, "starting "}, "d": {downVerb, "disconnecting "},
}

func (m *model) sessionCommand(k string, s api.Session) {
	do := task{verb: extendVerb, session: s.Name, host: s.Host}
	if does, ok := sessionKeys[k]; ok {
		do.verb = does.verb
		m.act(do, does.meanwhile+s.Name+"…")
		return
	}
	if !s.RunsJob() {
		m.fail(s.Name + " has no running job")
		return
	}
	m.asking = &question{text: fmt.Sprintf("How much longer may job %s run? (such as 30m, 2h or 1d) ", s.Job.ID), task: do}
}

// askCancel asks whether to end the chosen job.
func (m *model) askCancel(t target) {
	do, text := task{verb: cancelVerb, host: t.host}, ""
	switch {
	case t.session != nil:
		do.session, do.jobs, text = t.session.Name, t.session.LiveText(), action.CancelQuestion(m.now, *t.session)
	case t.job != nil:
		do.job, do.jobs, text = *t.job, "job "+t.job.ID, action.CancelQuestion(m.now, api.Session{Job: t.job})
	}
	if text == "" {
		m.fail("there is no job to end: choose one that is queued or running")
		return
	}
	m.asking = &question{text: text + " [y/N] ", yes: true, task: do}
}

// answer is a key while a question is open.
func (m *model) answer(k tea.KeyPressMsg) {
	q := *m.asking
	switch {
	case k.String() == "esc":
		m.asking = nil
		if q.filter {
			m.filter = ""
		} else {
			m.say("nothing was changed")
		}
	case q.yes:
		m.asking = nil
		if !strings.EqualFold(k.String(), "y") {
			m.say(action.NothingCancelled)
			return
		}
		if s, ok := m.status.Session(q.task.session); ok && s.LiveText() != q.task.jobs {
			m.fail(action.NothingCancelled + ": " + s.Name + " no longer has just " + q.task.jobs)
			return
		}
		m.act(q.task, "ending "+q.task.jobs+"…")
	case k.String() == "enter":
		m.asking = nil
		switch typed := strings.TrimSpace(q.typed); {
		case q.filter:
		case typed == "":
			m.say("nothing was changed")
		default:
			q.task.typed = typed
			m.act(q.task, "asking the scheduler…")
		}
	case k.String() == "backspace":
		if runes := []rune(q.typed); len(runes) > 0 {
			m.setTyped(string(runes[:len(runes)-1]))
		}
	case k.String() == "ctrl+u":
		m.setTyped("")
	default:
		m.typeText(k.Key().Text)
	}
}

// typeText adds to the answer.
func (m *model) typeText(text string) {
	if m.asking != nil && !m.asking.yes {
		m.setTyped(m.asking.typed + strings.ReplaceAll(api.Sanitize(text), "\n", " "))
	}
}

func (m *model) setTyped(text string) {
	q := *m.asking
	q.typed = text
	m.asking = &q
	if q.filter {
		m.filter = strings.TrimSpace(text)
	}
}

func (m *model) act(t task, meanwhile string) {
	if m.lost {
		return // nobody could do it, as the screen says
	}
	m.say(meanwhile)
	m.do.act(t)
}

// acted shows the result of an action.
func (m *model) acted(msg actedMsg) tea.Cmd {
	if m.view == jobsView {
		m.readJobs()
	}
	if msg.err != nil {
		m.fail(errorText(msg.err))
		return nil
	}
	m.say(msg.result.text)
	if msg.result.clipboard == "" {
		return nil
	}
	return tea.SetClipboard(msg.result.clipboard)
}

// errorText is an error with what a person can do about it.
func errorText(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		return e.Message + "\n→ " + e.Hint
	}
	return err.Error()
}

func (m *model) say(text string)  { m.message, m.failed = text, false }
func (m *model) fail(text string) { m.message, m.failed = text, true }
