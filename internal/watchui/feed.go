package watchui

import (
	"context"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

// tick is how often the status is read without an event: minutes and bytes have none.
const tick = time.Second

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
		result Result
		err    error
	}
	noticeMsg string
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
	ctx     context.Context // of Run, which waits for all that is running
	client  *client.Client
	options Options
	send    func(tea.Msg)
	running sync.WaitGroup

	// Of the model's goroutine alone:
	stop  context.CancelFunc // ends the open stream; nil: there was none yet
	ended chan struct{}      // closed when that has ended
}

// watch sends the status at every event and once a second, until the agent or ctx ends.
func (f *feed) watch() {
	events := make(chan struct{}, 1)
	gone := make(chan error, 1)
	listen := func() {
		gone <- f.client.Watch(f.ctx, api.AnswersNone, f.options.Waiter, func(e api.Event) {
			if e.Type == api.EventNotice && e.Notice != nil {
				f.send(noticeMsg(e.Notice.Text))
				return
			}
			select {
			case events <- struct{}{}:
			default: // one that is not read yet will do
			}
		})
	}
	opened := time.Now()
	f.running.Go(listen)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-events:
		case <-ticker.C:
		case err := <-gone:
			if f.ctx.Err() != nil {
				return
			}
			// The agent drops who does not read, such as a screen that was suspended.
			if _, down := f.client.Status(f.ctx); down == nil && err == nil && time.Since(opened) > tick {
				opened = time.Now()
				f.running.Go(listen)
				continue
			}
			if err == nil {
				err = api.Errorf(api.CodeAgent, "the agent has stopped").
					WithHint("`tunctl agent start` starts it again")
			}
			f.send(endMsg{err})
			return
		}
		if st, err := f.client.Status(f.ctx); err == nil { // the end of the stream says why not
			f.send(statusMsg{st, time.Now()})
		}
	}
}

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
		list := jobsMsg{}
		for _, host := range hosts {
			jobs, err := f.client.LastJobs(f.ctx, host)
			if err != nil {
				return // the agent has left, or is too old to know
			}
			for _, j := range jobs {
				list = append(list, api.HostJob{Host: host, Job: j})
			}
		}
		f.send(list)
	})
}

func (f *feed) act(a Action) {
	f.running.Go(func() {
		result, err := f.options.Act(f.ctx, a)
		f.send(actedMsg{result, err})
	})
}

// login leaves the screen for the questions of a host.
func (f *feed) login(host string) tea.Cmd {
	return tea.Exec(loginCommand{f, host}, func(err error) tea.Msg {
		return actedMsg{Result{Text: "connected to " + api.HostLabel(host)}, err}
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
