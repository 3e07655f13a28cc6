package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

// waitWithoutTerminal is how long up waits where nobody sees it wait.
const waitWithoutTerminal = 30 * time.Minute

func upCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "up",
		Usage:     "start a session and open its page",
		ArgsUsage: "[SESSION]",
		Description: "Connects to the session's host, finds its job or submits it, waits until the job runs, finds the\n" +
			"server's address in the job's log, forwards it to a port on this machine and opens the page.\n\n" +
			"SESSION may be left out if the config has only one. Ctrl-C only stops waiting: the job and the\n" +
			"agent keep running, and `tunctl up` continues where it was. A job is submitted only while this\n" +
			"command waits; after an hour without a job it asks again, or exits if it cannot ask.\n\n" +
			"  tunctl up                      the only session in the config\n" +
			"  tunctl up jupyter --no-open    only print the page's address\n" +
			"  tunctl up jupyter --wait 2h    stop waiting after two hours; the job stays",
		Flags: []cli.Flag{
			waitFlag(),
			&cli.BoolFlag{Name: "no-open", Usage: "do not open the page in a browser"},
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		Action: func(c *cli.Context) error {
			p, err := paths(c)
			if err != nil {
				return err
			}
			name, err := sessionName(c, p)
			if err != nil {
				return err
			}
			u := &up{term: t, json: c.Bool("json"), name: name, wait: c.Duration("wait")}
			if c.IsSet("wait") && u.wait <= 0 {
				return usagef("--wait takes a time such as 30m or 2h")
			}
			return u.run(c.Context, p, opensPage(c, p, name))
		},
	}
}

// opensPage reports whether the page is to be opened once it is there.
func opensPage(c *cli.Context, p home.Paths, name string) bool {
	if c.Bool("no-open") || c.Bool("json") {
		return false
	}
	cfg, err := loadConfig(p)
	if err != nil {
		return true
	}
	s, ok := cfg.Session(name)
	return !ok || s.Open
}

// up is one `tunctl up`: it asks the agent and draws what comes of it.
type up struct {
	term    *term.Terminal
	program string // what runs this tunctl in another terminal; "": its name
	json    bool
	name    string
	wait    time.Duration
	client  *client.Client
	// waiter names this command to the agent: while its watch lasts, the agent may
	// submit the job.
	waiter string
	begin  func(context.Context) (api.UpResponse, error) // asks the agent; nil: to bring name up
	// attaches says that the job is there already: none is submitted.
	attaches bool
	done     func(api.Session) // is told of the session that is ready; may be nil
}

// upLine is a line of `tunctl up --json`.
type upLine struct {
	Type    string       `json:"type"`
	Event   *api.Event   `json:"event,omitempty"`
	Session *api.Session `json:"session,omitempty"`
	*api.Error
}

func (u *up) run(ctx context.Context, p home.Paths, open bool) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	session, err := u.bringUp(ctx, p)
	if u.json {
		return u.conclude(session, err)
	}
	if err != nil {
		return err
	}
	u.announce(session)
	if u.done != nil {
		u.done(session)
	}
	if !open || session.URL == "" {
		return nil
	}
	if session.Endpoint.Guess {
		u.term.Say("the job serves a web page of an unknown kind; `tunctl open %s` opens it", u.name)
		return nil
	}
	opened, err := openPage(ctx, u.term, u.client, u.name, cmp.Or(u.program, "tunctl"))
	if opened != "" { // its address was printed just now
		u.term.Say("%s opened the page", u.term.Paint(term.Green, "✓"))
	}
	return err
}

// bringUp asks for the session and waits until it is ready or cannot be.
func (u *up) bringUp(ctx context.Context, p home.Paths) (api.Session, error) {
	start := connect
	if u.begin == nil {
		start = reach
	}
	var err error
	if u.client, _, err = start(ctx, u.term, p); err != nil {
		return api.Session{}, err
	}
	u.waiter = rand.Text()
	waiting, cancel := u.deadline(ctx)
	defer cancel()
	session, err := u.follow(waiting)
	_, silent := errors.AsType[silentError](err)
	switch {
	case silent: // what there is to say was said
		return session, err
	case ctx.Err() != nil:
		u.leave(session)
		return session, silentError(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded) && session.Name == "":
		return session, &api.Error{
			Code: api.CodeTimeout, Message: "the agent did not respond in time", Hint: "`tunctl status` shows what it has started",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return session, u.timedOut(session)
	}
	return session, err
}

// unsubmitted reports whether a session's job is yet to be submitted, which happens only
// while somebody waits.
func unsubmitted(s api.Session) bool { return s.MaySubmit && s.Job == nil }

// timedOut says that the wait is over, and what becomes of the session without it.
func (u *up) timedOut(s api.Session) error {
	e := &api.Error{
		Code: api.CodeTimeout, Message: fmt.Sprintf("session %q is still %s%s", u.name, s.State, because(s.Cause)),
		Hint: fmt.Sprintf("it continues in the background: `tunctl status` shows progress, `tunctl up %s` waits again", u.name),
	}
	if unsubmitted(s) {
		e.Hint = fmt.Sprintf("no job is submitted unless a command waits: `tunctl up %s` waits again", u.name)
	}
	return e
}

func (u *up) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case u.wait > 0:
		return context.WithTimeout(ctx, u.wait)
	case u.term.Interactive:
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, waitWithoutTerminal)
}

// follow watches events from before the request on, so that no question of a
// host is missed, and returns when the session is ready or settled.
func (u *up) follow(ctx context.Context) (api.Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	events, gone := u.watch(ctx)
	defer func() { cancel(); <-gone }()
	if _, ok := <-events; !ok && ctx.Err() != nil {
		return api.Session{}, ctx.Err()
	} else if !ok {
		return api.Session{}, &api.Error{Code: api.CodeAgent, Message: "the agent has stopped"}
	}
	answer, err := u.ask(ctx)
	if err != nil {
		return api.Session{}, err
	}
	session := answer.Session
	u.name = session.Name
	draw := u.drawing()
	defer draw.stop()
	for {
		if len(session.Candidates) > 0 && u.term.Interactive && !u.json {
			if answer, err = u.choose(ctx, session.Candidates); err != nil {
				return session, err
			}
			session = answer.Session
		}
		draw.show(session)
		if session.State == api.SessionReady {
			return session, nil
		}
		if session.State.Settled() {
			return session, u.failure(session)
		}
		was := session
		if session, err = u.next(ctx, events, answer.At, session); err != nil {
			return session, err
		}
		if unsubmitted(was) && !session.MaySubmit && looksForJob(session) {
			if answer, err = u.askAgain(ctx, events, answer, session); err != nil {
				return session, err
			}
			session = answer.Session
		}
	}
}

// looksForJob reports whether a session is on its way to a job that it has yet to find
// or submit.
func looksForJob(s api.Session) bool {
	return s.Job == nil && !s.State.Settled() && s.State != api.SessionReady
}

// askAgain asks the person whether their job is still wanted: the agent's permission to
// submit it, which an up gives for an hour, is over. The session may come up meanwhile.
func (u *up) askAgain(ctx context.Context, events <-chan api.Event, asked api.UpResponse, now api.Session) (api.UpResponse, error) {
	waited := api.DurationText(time.Since(asked.At))
	if !u.term.Interactive {
		return asked, u.unpermitted(now, waited)
	}
	asking, withdraw := context.WithCancelCause(ctx)
	defer withdraw(nil)
	var answer string
	var unread error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer withdraw(nil)
		answer, unread = u.term.ReadLine(asking, fmt.Sprintf("still waiting for %s after %s; submit its job as soon as possible? [Y/n] ", u.name, waited), true)
	}()
	for looksForJob(now) {
		next, err := u.next(asking, events, asked.At, now)
		if err != nil && asking.Err() == nil { // the agent is gone
			return asked, err
		}
		if err != nil {
			break
		}
		now = next
	}
	if !looksForJob(now) { // it has its job, or cannot have one: the question is none any more
		withdraw(term.ErrWithdrawn)
		<-answered
		asked.Session = now
		return asked, nil
	}
	<-answered
	switch {
	case ctx.Err() != nil:
		return asked, ctx.Err()
	case unread != nil, strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "n"):
		return asked, u.unpermitted(now, waited)
	}
	return u.ask(ctx)
}

// unpermitted says that the agent may no longer submit the job, which it may have begun
// to do before.
func (u *up) unpermitted(s api.Session, waited string) error {
	if s.State == api.SessionSubmitting {
		return &api.Error{
			Code: api.CodeTimeout, Message: fmt.Sprintf("still waiting for %s after %s%s", u.name, waited, because(s.Cause)),
			Hint: fmt.Sprintf("`tunctl status %s` shows whether the job has just been submitted; only `tunctl up %s` submits one from now on", u.name, u.name),
		}
	}
	return &api.Error{
		Code: api.CodeTimeout, Message: fmt.Sprintf("still waiting for %s after %s; no job was submitted, and none will be%s", u.name, waited, because(s.Cause)),
		Hint: fmt.Sprintf("`tunctl up %s` tries again", u.name),
	}
}

func (u *up) ask(ctx context.Context) (api.UpResponse, error) {
	if u.begin != nil {
		return u.begin(ctx)
	}
	return u.client.UpWaiting(ctx, api.UpRequest{Session: u.name}, u.waiter)
}

// choose asks the person which of several jobs of the session's name is meant, and goes
// on with that one.
func (u *up) choose(ctx context.Context, jobs []api.Job) (api.UpResponse, error) {
	u.term.Say("Several jobs of this name are running on the host:")
	candidates := make([]api.Candidate, len(jobs))
	for i, job := range jobs {
		candidates[i].Job = job
	}
	job, err := pickJob(ctx, u.term, candidates)
	if err != nil {
		return api.UpResponse{}, err
	}
	return u.client.UpWaiting(ctx, api.UpRequest{Session: u.name, Job: job}, u.waiter)
}

// watch streams events into a channel until ctx ends or the agent goes.
func (u *up) watch(ctx context.Context) (<-chan api.Event, <-chan struct{}) {
	answers := api.AnswersNone
	if u.term.Interactive {
		answers = api.AnswersTerminal
	}
	events := make(chan api.Event)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer close(events)
		q := &questions{term: u.term, client: u.client}
		defer q.wait()
		_ = u.client.WatchWaiting(ctx, answers, u.waiter, func(e api.Event) { // its end is the channel's
			if q.hear(ctx, e) {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
			}
		})
	}()
	return events, gone
}

// next waits for the session's next state. Events before the request tell of the
// time before it.
func (u *up) next(ctx context.Context, events <-chan api.Event, from time.Time, now api.Session) (api.Session, error) {
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok && ctx.Err() == nil:
				return now, &api.Error{Code: api.CodeAgent, Message: "the agent has stopped", Hint: fmt.Sprintf("`tunctl agent log` shows why; `tunctl up %s` starts it again", u.name)}
			case !ok:
				return now, ctx.Err()
			case e.Time.Before(from):
				continue
			case u.json:
				if err := u.term.PrintJSON(upLine{Type: "event", Event: &e}); err != nil {
					return now, err
				}
			case e.Type == api.EventNotice && e.Notice.Session == u.name:
				u.term.Say("! %s", e.Notice.Text)
			}
			if e.Type == api.EventSession && e.Session.Name == u.name {
				return *e.Session, nil
			}
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// drawing is the progress on the terminal; with --json there is none.
func (u *up) drawing() *steps {
	if u.json {
		return newSteps(term.New(nil, nil, io.Discard))
	}
	s := newSteps(u.term)
	s.attaches = u.attaches
	return s
}

// failure is the error of a session that settled without being ready.
func (u *up) failure(s api.Session) error {
	e := &api.Error{Code: s.Code, Message: s.Cause, Hint: s.Hint}
	if e.Code == "" {
		e.Code = api.CodeFailed
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("session %q is %s", s.Name, s.State)
	}
	if s.State == api.SessionNeedsLogin && unsubmitted(s) { // the permission ends with this command
		e.Hint = strings.TrimPrefix(fmt.Sprintf("%s; then `tunctl up %s` again", e.Hint, s.Name), "; ")
	}
	return e
}

// announce tells where the page is.
func (u *up) announce(s api.Session) {
	on := ""
	if s.Job != nil && s.Job.Node != "" {
		on = ", on " + s.Job.Node
	}
	u.term.Say("%s %s is ready%s%s", u.term.Paint(term.Green, "✓"), u.term.Paint(term.Bold, s.Name), untilText(s.Job, time.Now()), on)
	if s.URL != "" {
		fmt.Fprintln(u.term.Out, s.URL)
		return
	}
	for _, f := range s.Forwards {
		if f.Error != "" {
			u.term.Say("! %s: %s", f.Listen, f.Error)
			continue
		}
		u.term.Say("  %s", forwardText(f, s.Host))
		if !term.IsTerminal(u.term.Out) { // a script reads the addresses
			fmt.Fprintln(u.term.Out, f.Listen)
		}
	}
}

// conclude prints the last line of --json.
func (u *up) conclude(s api.Session, err error) error {
	if err == nil {
		return u.term.PrintJSON(upLine{Type: "session", Session: &s})
	}
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		e = &api.Error{Code: api.CodeFailed, Message: err.Error()}
	}
	return errors.Join(u.term.PrintJSON(upLine{Type: "error", Error: e}), silentError(exitCode(err)))
}

// leave tells what stays behind after a Ctrl-C.
func (u *up) leave(s api.Session) {
	switch {
	case u.name == "": // the agent has not answered yet
		u.term.Say("stopped waiting; `tunctl status` shows what the agent has started")
	case unsubmitted(s) && s.State == api.SessionSubmitting:
		u.term.Say("stopped waiting; `tunctl status %s` shows whether the job has just been submitted; only `tunctl up %s` submits one from now on", u.name, u.name)
	case unsubmitted(s):
		u.term.Say("stopped waiting; no job was submitted, and none will be until the next `tunctl up %s`", u.name)
	case s.Job == nil || s.Job.State.Ended():
		u.term.Say("stopped waiting; the agent continues in the background: `tunctl down %s` stops it", u.name)
	default:
		u.term.Say("stopped waiting; job %s stays: `tunctl up %s` waits again, `tunctl down %s --cancel` ends it", s.Job.ID, u.name, u.name)
	}
}

// openPage opens a session's page. It returns what it opened, without the token; "" where
// it told the person how to do it, with program in another terminal.
func openPage(ctx context.Context, t *term.Terminal, cl *client.Client, name, program string) (opened string, err error) {
	page, err := cl.PageURL(ctx, name)
	if err != nil {
		return "", err
	}
	if err := desktop.Open(ctx, page, desktop.OpenOptions{}); err != nil {
		return "", notOpened(ctx, t, program+" open "+name, page, err)
	}
	return plainAddress(page), nil
}

// plainAddress is an address without a token.
func plainAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return api.Redact(address)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// notOpened tells a person whose page did not open how to get it.
func notOpened(ctx context.Context, t *term.Terminal, command, page string, err error) error {
	switch {
	case ctx.Err() != nil:
		return silentError(exitInterrupted)
	case errors.Is(err, desktop.ErrUnavailable):
		t.Say("no viewer for %s found; open that address with yours", plainAddress(page))
		return nil
	case errors.Is(err, desktop.ErrNoBrowser):
		t.Say("no browser found; `%s` shows the full address, token included", command+" --print")
		return nil
	case errors.Is(err, desktop.ErrNotOpened):
		return &api.Error{
			Code: api.CodeFailed, Message: "the browser started, but did not request the page", Err: err,
			Hint: fmt.Sprintf("`%s` tries again; --print shows the full address, token included", command),
		}
	}
	return err
}
