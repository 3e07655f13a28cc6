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

const jobsEvery = 5 * time.Second // the schedulers are asked once a minute anyway

// model is the screen as a function of messages. What they cause outside is in do.
type model struct {
	options Options
	do      effects
	screen
	now   time.Time // of the status
	clock time.Time // goes on though the agent does not answer

	status api.Status
	lost   bool // the agent has stopped, and the status is its last
	jobs   []api.HostJob
	jobsAt time.Time // when they were requested
	received

	view    viewKind
	from    viewKind // the view that the log was opened from
	cursors [len(views)]cursor
	logOf   row
	filter  string
	over    overlay
	pager   pager // of the log, the details or the help

	suspended bool // nobody looks, until the shell continues it

	asking  question
	message string
	failed  bool        // the message is an error
	told    api.Session // the message is about its state, and ends with that; without a name: no session

	end error // why it ended; nil by q
}

// overlay is a page of text in place of the view.
type overlay int

// The overlays.
const (
	noOverlay overlay = iota
	helpOverlay
	detailsOverlay // of the chosen row
)

// effects are what the model causes. None of them blocks.
type effects interface {
	follow(s stream)
	jobs(hosts []string)
	act(t task)
	login(host string) tea.Cmd
	// suspend stops the program, once the agent knows that nobody looks; nil: it cannot.
	suspend() tea.Cmd
}

// newModel is the screen before the first message.
func newModel(o Options, do effects, colours bool, now time.Time) model {
	m := model{options: o, do: do, screen: screen{80, 24, colours}, now: now, pager: pager{tail: true}}
	m.setStatus(o.Status)
	return m
}

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return nextTick() }

func nextTick() tea.Cmd { return tea.Tick(tick, func(now time.Time) tea.Msg { return tickMsg(now) }) }

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
		if m.mayRetry(m.now) {
			m.openStream(m.open)
		}
	case tickMsg:
		m.clock, cmd = time.Time(msg), nextTick()
	case jobsMsg:
		m.jobs = msg
	case usageMsg:
		m.addUsage(api.Usage(msg))
	case logMsg:
		if msg.of == m.open {
			before := m.log.first()
			m.log.add(msg.chunk)
			m.pager.top = max(0, m.pager.top-(m.log.first()-before)) // the lines stay where they are read
		}
	case endedMsg:
		if msg.of == m.open {
			m.ended, m.err, m.endedAt = true, msg.err, m.now
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
		m.asking.add(msg.Content)
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	}
	if m.asking.filter {
		m.filter = strings.TrimSpace(m.asking.typed)
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
	if s, _ := st.Session(m.told.Name); m.told.Name != "" && s.State != m.told.State && !s.AwaitsSubmission() {
		m.say("")
	}
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
	if want != m.open {
		m.pager.tail = true
		m.openStream(want)
	}
}

// openStream has the agent send a stream from its beginning, which for the use of jobs is the last hour.
func (m *model) openStream(s stream) {
	m.received = received{open: s, usage: map[string][]api.Usage{}}
	m.do.follow(s)
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
	if m.asking.isOpen() {
		m.answer(k)
		return nil
	}
	m.message = ""
	switch {
	case key.Matches(k, keyQuit):
		return tea.Quit
	case key.Matches(k, keyHelp):
		m.toggle(helpOverlay)
	case key.Matches(k, keyBack):
		m.back()
	case key.Matches(k, keyViews):
		m.show(viewKind(k.String()[0] - '1'))
	case key.Matches(k, keyFilter):
		m.over = noOverlay
		m.asking = question{text: "/", typed: m.filter, filter: true}
	case m.over == detailsOverlay && key.Matches(k, keyDetails):
		m.over = noOverlay
	case m.onPage() && key.Matches(k, moveKeys...):
		m.scrollPage(k)
	case m.onPage():
	case key.Matches(k, moveKeys...):
		m.cursors[m.view].move(k, m.list().rows, m.bodyHeight()/2)
	case key.Matches(k, keyDetails) && m.target().key != "":
		m.toggle(detailsOverlay)
	}
	if m.over == helpOverlay {
		return nil
	}
	return m.command(k)
}

// toggle opens a page of text from its top, or closes it; a log behind it is then shown from its end.
func (m *model) toggle(o overlay) {
	if m.over == o {
		o = noOverlay
	}
	m.over = o
	m.pager = pager{tail: true}
}

// back closes what is open.
func (m *model) back() {
	switch {
	case m.over != noOverlay:
		m.over = noOverlay
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
	m.over = noOverlay
	m.filter = ""
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
			if t.job != nil {
				m.fail("job " + t.job.ID + " belongs to no session: 1 lists the sessions")
				return nil
			}
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
	m.asking = question{text: fmt.Sprintf("How much longer may job %s run? (such as 30m, 2h or 1d) ", s.Job.ID), task: do}
}

// askCancel asks whether to end the chosen job.
func (m *model) askCancel(t row) {
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
	m.asking = question{text: text + " [y/N] ", confirm: true, task: do}
}

// answer is a key while a question is open.
func (m *model) answer(k tea.KeyPressMsg) {
	q, pressed := m.asking, k.String()
	if !q.confirm && pressed != "esc" && pressed != "enter" {
		m.asking.edit(k)
		return
	}
	m.asking = question{}
	q.task.typed = strings.TrimSpace(q.typed)
	switch {
	case q.filter && pressed == "esc":
		m.filter = ""
	case q.filter:
	case q.confirm && !strings.EqualFold(pressed, "y"):
		of, _ := m.status.Session(q.task.session)
		if q.task.session == "" {
			of.Job = &q.task.job
		}
		m.say(action.NotCancelled(m.now, of))
	case pressed == "esc", !q.confirm && q.task.typed == "":
		m.say("nothing was changed")
	case q.confirm:
		m.cancel(q.task)
	default:
		if _, err := action.ParseSpan(q.task.typed); err != nil {
			m.asking = question{text: strings.ReplaceAll(errorText(err), "\n→ ", ": ") + " ", task: q.task}
			return
		}
		m.act(q.task, "asking the scheduler…")
	}
}

// cancel ends the jobs of a question that was confirmed, unless the session has got others since.
func (m *model) cancel(t task) {
	if s, ok := m.status.Session(t.session); ok && s.LiveText() != t.jobs {
		m.fail(action.NothingCancelled + ": " + s.Name + " no longer has just " + t.jobs)
		return
	}
	m.act(t, "ending "+t.jobs+"…")
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
	m.told = msg.result.told
	if msg.result.clipboard == "" {
		return nil
	}
	return tea.SetClipboard(msg.result.clipboard)
}

// errorText is an error with what the user can do about it.
func errorText(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		return e.Message + "\n→ " + e.Hint
	}
	return err.Error()
}

func (m *model) say(text string)  { m.message, m.failed, m.told = text, false, api.Session{} }
func (m *model) fail(text string) { m.message, m.failed, m.told = text, true, api.Session{} }

// question is asked in the line above the keys.
type question struct {
	text    string // "": nothing is asked
	typed   string
	confirm bool // it is answered by y or n alone
	filter  bool // what is typed filters at once
	task    task
}

func (q question) isOpen() bool { return q.text != "" }

// add takes in what was typed or pasted.
func (q *question) add(text string) {
	if q.isOpen() && !q.confirm {
		q.typed += strings.ReplaceAll(api.Sanitize(text), "\n", " ")
	}
}

// edit is a key that changes the answer.
func (q *question) edit(k tea.KeyPressMsg) {
	switch k.String() {
	case "backspace":
		if runes := []rune(q.typed); len(runes) > 0 {
			q.typed = string(runes[:len(runes)-1])
		}
	case "ctrl+u":
		q.typed = ""
	default:
		q.add(k.Key().Text)
	}
}

// keys are those that answer the question, for the last line.
func (q question) keys() []key.Binding {
	back := binding("Esc", "back", "esc")
	switch {
	case q.confirm:
		return []key.Binding{binding("y", "yes", "y"), binding("n", "no", "n"), back}
	case q.filter:
		return []key.Binding{binding("Enter", "keep the filter", "enter"), binding("Esc", "show all", "esc")}
	}
	return []key.Binding{binding("Enter", "ask for it", "enter"), back}
}
