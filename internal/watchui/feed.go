package watchui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/ctxtime"
	"tunctl/internal/desktop"
	"tunctl/internal/latest"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

// tick is how often the status is read without an event: minutes and bytes have none.
const tick = time.Second

// silentAfter is how long the agent may not answer before the screen says so.
const silentAfter = 5 * time.Second

// The messages to the model.
type (
	statusMsg struct {
		status api.Status
		now    time.Time
	}
	jobsMsg  []api.HostJob
	usageMsg api.Usage
	logMsg   struct {
		of    stream
		chunk api.LogChunk
	}
	endedMsg struct { // a stream has ended
		of  stream
		err error
	}
	actedMsg struct {
		result result
		err    error
	}
	tickMsg   time.Time
	noticeMsg string
	lostMsg   struct{} // the agent has stopped
	endMsg    struct{ err error }
)

// stream is what the agent sends for as long as it is shown: a log, or the use of jobs. The
// agent measures use only while somebody looks.
type stream struct {
	usage bool
	log   api.LogQuery
}

// feed brings what the agent has to the model, and does what the model asks for.
type feed struct {
	ctx     context.Context // of run, which waits for all that is running
	client  *client.Client
	options Options
	send    func(tea.Msg)
	running sync.WaitGroup

	// Of the model's goroutine alone:
	stop  context.CancelFunc // ends the open stream; nil: there was none yet
	ended chan struct{}      // closed when that has ended
}

// run shows a model until it ends, and returns its last state.
func (f *feed) run(ctx context.Context, t *term.Terminal, m tea.Model) (tea.Model, error) {
	ctx, cancel := context.WithCancel(ctx)
	f.ctx = ctx
	in := t.In
	if file, ok := in.(file); ok {
		keys := &keyboard{file: file}
		defer keys.end()
		in = keys
	}
	// Every end is a message. An end by a context or a signal of bubbletea's own would not
	// wait for its reader of keys, which can then hang for good.
	p := tea.NewProgram(m, tea.WithoutSignalHandler(), tea.WithInput(in), tea.WithOutput(t.Out), tea.WithFPS(framesPerSecond))
	f.send = p.Send
	defer context.AfterFunc(ctx, func() { p.Send(endMsg{ErrInterrupted}) })()
	f.running.Go(f.watch)
	fmt.Fprint(t.Out, "\x1b[?1007s\x1b[?1007h") // the mouse wheel presses the arrow keys; text can be selected as before
	last, err := p.Run()
	fmt.Fprint(t.Out, "\x1b[?1007r")
	cancel()
	f.running.Wait()
	return last, err
}

// file is what bubbletea takes for a file, whose reads it can cancel.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
	Name() string
}

// keyboard is a terminal's input while the screen is shown. After a panic bubbletea does not wait for its
// reader, and otherwise half a second: one that outlives the screen must not take the next key.
type keyboard struct {
	file
	mu   sync.Mutex
	over bool
}

func (k *keyboard) Read(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return 0, io.EOF
	}
	return k.file.Read(b) // there is something to read
}

func (k *keyboard) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
}

// watch sends the status at every event and once a second, until ctx ends.
func (f *feed) watch() {
	err := Follow(f.ctx, f.client, f.options.Waiter, tick, Viewer{
		Show:   func(st api.Status) error { f.send(statusMsg{st, time.Now()}); return nil },
		Notice: func(n api.Notice) { f.send(noticeMsg(n.Text)) },
		Lost:   func() { f.send(lostMsg{}) },
	})
	if f.ctx.Err() == nil {
		f.send(endMsg{err})
	}
}

// Viewer is who sees what the agent reports.
type Viewer struct {
	Show   func(api.Status) error
	Notice func(api.Notice) // may be nil
	Lost   func()           // the agent has stopped; the next status is that of another one
	Silent func(time.Time)  // the agent runs, and has not answered since then; may be nil
}

// AgentLost is what to say then.
const AgentLost = "the agent has stopped; waiting for the next one (`tunctl agent start` starts it)"

// AgentSilent is what to say of an agent that hangs.
func AgentSilent(since time.Time) string {
	return "the agent has not answered since " + since.Format("15:04:05") + "; jobs keep running, and `tunctl doctor` says more"
}

// Follow shows the status at every change, and each tick if that is not zero, until the viewer
// fails or ctx ends. It fails if no agent runs at the beginning; later it waits for another one, unless
// that was the agent of a demo that has ended.
// Waiter is the name by which this command waits, see client.Watch.
func Follow(ctx context.Context, cl *client.Client, waiter string, tick time.Duration, v Viewer) error {
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	events, gone := make(chan struct{}, 1), make(chan error, 1)
	listen := func() {
		gone <- cl.Watch(ctx, api.AnswersNone, waiter, func(e api.Event) {
			switch e.Type {
			case api.EventNotice:
				if e.Notice != nil && v.Notice != nil {
					v.Notice(*e.Notice)
				}
			case api.EventStatus, api.EventSession, api.EventSessionGone, api.EventHost:
				latest.Signal(events)
			}
		})
	}
	listening.Go(listen)
	ticks, seen, silent := time.Tick(cmp.Or(tick, silentAfter)), false, false
	answered := time.Now()
	for {
		shown := true
		select {
		case <-events:
		case <-ticks: // also without a tick: an agent that hangs sends nothing
			shown = tick > 0
		case err := <-gone:
			if !seen {
				return cmp.Or(err, error(api.Errorf(api.CodeAgent, "the agent has stopped")))
			}
			if err := awaitAgent(ctx, cl, v.Lost); err != nil {
				return err
			}
			listening.Go(listen)
			continue
		}
		st, err := cl.Status(ctx)
		if errors.Is(err, client.ErrHung) && !silent && v.Silent != nil {
			silent = true
			v.Silent(answered)
		}
		if err != nil {
			continue // the end of the stream says why
		}
		shown, seen, silent, answered = shown || silent, true, false, time.Now()
		if shown {
			if err := v.Show(st); err != nil {
				return err
			}
		}
	}
}

// awaitAgent waits until an agent runs. The agent also drops who does not read, such as a screen
// that was suspended: then it is not lost.
func awaitAgent(ctx context.Context, cl *client.Client, lost func()) error {
	for told := false; ; {
		_, err := cl.Status(ctx)
		switch {
		case err == nil && told:
			return nil
		case err != nil && !told && ctx.Err() == nil:
			told = true
			lost()
		}
		if err := cmp.Or(client.CheckHome(), ctxtime.Sleep(ctx, agentRetry)); err != nil {
			return err
		}
		if err == nil { // one that is about to end is lost the next time
			return nil
		}
	}
}

// agentRetry is how often another agent is looked for.
const agentRetry = time.Second

// follow opens a stream in place of the one that is open.
func (f *feed) follow(s stream) {
	if f.stop != nil {
		f.stop()
	}
	ctx, stop := context.WithCancel(f.ctx)
	ended := make(chan struct{})
	f.stop, f.ended = stop, ended
	if s == (stream{}) {
		close(ended)
		return
	}
	f.running.Go(func() {
		defer close(ended)
		defer stop()
		var err error
		if s.usage {
			err = f.client.Usage(ctx, f.options.Session, false, func(u api.Usage) { f.send(usageMsg(u)) })
		} else {
			err = f.client.Log(ctx, s.log, func(c api.LogChunk) { f.send(logMsg{s, c}) })
		}
		if ctx.Err() == nil {
			f.send(endedMsg{s, err})
		}
	})
}

// suspend stops the program, after the open stream: a stopped client would still look.
func (f *feed) suspend() tea.Cmd {
	switch {
	case !term.CanSuspend():
		return nil // nobody could continue it
	case f.stop == nil:
		return tea.Suspend
	}
	f.stop()
	ended := f.ended
	return func() tea.Msg {
		<-ended
		return tea.Suspend()
	}
}

// jobs sends the jobs that the schedulers of hosts reported last; nobody is asked.
func (f *feed) jobs(hosts []string) {
	f.running.Go(func() {
		all, err := f.client.LastJobsOf(f.ctx, hosts)
		if err != nil {
			return // the agent has left
		}
		list := jobsMsg{}
		for _, h := range all {
			for _, j := range h.Jobs {
				list = append(list, api.HostJob{Host: h.Host, Job: j})
			}
		}
		f.send(list)
	})
}

// login leaves the screen for the questions of a host.
func (f *feed) login(host string) tea.Cmd {
	return tea.Exec(loginCommand{f, host}, func(err error) tea.Msg {
		return actedMsg{result{text: "connected to " + api.HostLabel(host)}, err}
	})
}

// loginCommand is a login as bubbletea runs programs: outside the screen.
type loginCommand struct {
	*feed
	host string
}

func (l loginCommand) Run() error { return l.options.Login(l.ctx, l.host) }

func (l loginCommand) SetStdin(io.Reader)  {} // it has the terminal already
func (l loginCommand) SetStdout(io.Writer) {}
func (l loginCommand) SetStderr(io.Writer) {}

// verb is what a task does.
type verb string

// The verbs.
const (
	openVerb   verb = "open"
	upVerb     verb = "up"
	downVerb   verb = "down"
	extendVerb verb = "extend"
	cancelVerb verb = "cancel"
	copyVerb   verb = "copy"
)

// task is what the user asked for by a key.
type task struct {
	verb    verb
	session string // "" for a job that belongs to none
	host    string
	job     api.Job // of a cancelVerb without a session
	jobs    string  // the names of what a cancelVerb ends
	typed   string  // of an extendVerb: how much longer
}

// result is what to say after a task. Clipboard, unless empty, is a text that the
// terminal should put on its clipboard. Told, unless empty, is the session whose state the text tells.
type result struct {
	text, clipboard string
	told            api.Session
}

// act does what a key asked for, and sends what came of it.
func (f *feed) act(t task) {
	f.running.Go(func() {
		res, err := f.do(f.ctx, t)
		f.send(actedMsg{res, err})
	})
}

func (f *feed) do(ctx context.Context, t task) (result, error) {
	var text string
	var err error
	switch t.verb {
	case openVerb:
		text, err = action.OwnDesktop.OpenPage(ctx, f.client, action.Page{Session: t.session})
		text = cmp.Or(text, "opened "+t.session)
	case upVerb:
		return f.up(ctx, t.session)
	case downVerb:
		text, err = f.down(ctx, api.DownRequest{Session: t.session})
	case extendVerb:
		var by time.Duration
		if by, err = action.ParseSpan(t.typed); err == nil {
			text, err = action.Extend(ctx, f.client, api.ExtendRequest{Session: t.session, Seconds: int64(by.Seconds())})
		}
	case cancelVerb:
		text, err = f.cancel(ctx, t)
	case copyVerb:
		return f.copyAddress(ctx, t.session)
	}
	return result{text: text}, err
}

// up starts a session. The screen is what waits for it.
func (f *feed) up(ctx context.Context, session string) (result, error) {
	res, err := f.client.Up(ctx, api.UpRequest{Session: session, Waiter: f.options.Waiter})
	switch {
	case err != nil:
		return result{}, err
	case len(res.Session.Candidates) > 0:
		return result{}, api.Errorf(api.CodeFailed, "several jobs of the name of %s are running", session).
			WithHint("`tunctl up %s` in another terminal lets you choose one", session)
	case res.Session.AwaitsSubmission():
		return result{text: "starting " + session + "; its job may be submitted while this screen is open", told: res.Session}, nil
	}
	return result{text: fmt.Sprintf("%s is %s%s", session, res.Session.State, show.Because(res.Session.Cause)), told: res.Session}, nil
}

func (f *feed) down(ctx context.Context, req api.DownRequest) (string, error) {
	before, _ := f.client.Status(ctx) // down itself says what is wrong
	res, err := f.client.Down(ctx, req)
	return strings.Join(action.DownTexts(res, before, time.Now()), "\n"), err
}

// cancel ends a job. That of a session takes the session down too.
func (f *feed) cancel(ctx context.Context, t task) (string, error) {
	if t.session != "" {
		return f.down(ctx, api.DownRequest{Session: t.session, Cancel: true})
	}
	_, err := f.client.Cancel(ctx, t.host, t.job.Ref())
	return action.CancelledText(t.job), err
}

// copyAddress copies the whole address of a page, or has the terminal do so where there is
// no desktop, as over ssh.
func (f *feed) copyAddress(ctx context.Context, session string) (result, error) {
	var res result
	var err error
	clipboard := action.Desktop{Copy: func(ctx context.Context, address string) error {
		if desktop.Copy(ctx, address) != nil {
			res.clipboard = address
		}
		return nil
	}}
	res.text, err = clipboard.CopyAddress(ctx, f.client, action.Page{Session: session})
	if res.clipboard != "" {
		res.text = fmt.Sprintf("asked the terminal to copy the address of %s; if it does not, `tunctl open %s --print` shows it", session, session)
	}
	return res, err
}
