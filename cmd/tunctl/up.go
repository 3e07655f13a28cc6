package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/cmdline"
	"tunctl/internal/ctxtime"
	"tunctl/internal/lists"
	"tunctl/internal/setup"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

// waitWithoutTerminal is how long up waits where no user watches.
const waitWithoutTerminal = 30 * time.Minute

// waitFlag is --wait of the commands that wait for a session.
func waitFlag() cli.Flag {
	return &cli.DurationFlag{Name: "wait", Usage: "give up after `TIME`", DefaultText: "never; in scripts 30m"}
}

func upCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "up",
		Usage:     "start a session and open its page",
		ArgsUsage: "[SESSION...]",
		Flags: []cli.Flag{
			waitFlag(),
			withFlag("for this run, use `NAME=VALUE`; repeatable"),
			&cli.BoolFlag{Name: "again", Usage: "choose as at the last run"},
			&cli.StringFlag{Name: "as", Usage: "start a second session of that `NAME`"},
			&cli.BoolFlag{Name: "dry-run", Usage: "submit nothing; show the job, its cost and start"},
			&cli.BoolFlag{Name: "no-open", Usage: "do not open the page in a browser"},
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		Action: invokeInterruptible(t, bringUpAll),
	}
}

// bringUpAll starts the sessions that the arguments name. All are requested first, so that their jobs
// wait at the same time.
func bringUpAll(ctx context.Context, inv *invocation) error {
	name, err := inv.argumentOr(inv.onlySession)
	if err != nil {
		return err
	}
	if inv.NArg() > 1 && (inv.IsSet("with") || inv.IsSet("as") || inv.Bool("dry-run")) {
		return usagef("unexpected argument %q: up takes one session with --with, --as or --dry-run", inv.Args().Get(1))
	}
	for _, other := range inv.Args().Tail() { // none is started where one is unknown
		st, err := inv.status(ctx)
		if _, known := st.Session(other); err == nil && !known {
			err = unknownSession(other, st)
		}
		if err != nil {
			return err
		}
	}
	if inv.Bool("dry-run") {
		d, err := newDryRun(inv, name)
		if err != nil {
			return err
		}
		return d.run(ctx)
	}
	u := newUp(inv)
	u.choices = api.UpRequest{As: inv.String("as"), Again: inv.Bool("again")}
	if inv.IsSet("wait") && u.wait <= 0 {
		return usagef("--wait takes a time such as 30m or 2h")
	}
	if inv.IsSet("as") && u.choices.As == "" {
		return usagef("--as takes the name of the second session")
	}
	if u.choices.With, err = answersOf(inv.Context); err != nil {
		return err
	}
	var errs []error
	for next := inv.Args().Tail(); ctx.Err() == nil; name, next = next[0], next[1:] {
		one := *u
		one.name, one.others = name, next
		if errs = append(errs, one.start(ctx, opensPage(inv, name))); len(next) == 0 {
			break
		}
	}
	return reportFailures(inv.Terminal, errs)
}

// opensPage reports whether to open the page once it is ready.
func opensPage(inv *invocation, name string) bool {
	s, ok := readConfig(inv.paths).Session(name)
	return !inv.Bool("no-open") && !inv.Bool("json") && (!ok || s.Open)
}

// up is one `tunctl up`: it requests the session and draws its progress.
type up struct {
	*invocation
	json    bool
	name    string        // of the session
	others  []string      // the sessions to start after it
	choices api.UpRequest // for this run
	wait    time.Duration
	// waiter names this command to the agent: while its watch lasts, the agent may
	// submit the job.
	waiter   string
	request  func(context.Context) (api.UpResponse, error) // nil: requests the session name
	attaches bool                                          // the job exists: none is submitted
	ready    api.Session                                   // the session, after start
}

func newUp(inv *invocation) *up {
	return &up{invocation: inv, json: inv.Bool("json"), wait: inv.Duration("wait")}
}

// upLine is a line of `tunctl up --json`.
type upLine struct {
	Type    string       `json:"type"`
	Event   *api.Event   `json:"event,omitempty"`
	Session *api.Session `json:"session,omitempty"`
	*api.Error
}

// start brings the session up and opens its page.
func (u *up) start(ctx context.Context, open bool) error {
	session, err := u.bringUp(ctx)
	if api.HasCode(err, api.CodeNoScheduler) && u.Interactive && !u.json {
		if yes, _ := u.Agrees(ctx, setup.OwnMachineQuestion(session.Host), false); yes {
			if err := setup.SetOwnMachine(ctx, u.client, u.paths.Config, session.Host); err != nil {
				return err
			}
			session, err = u.bringUp(ctx)
		}
	}
	u.ready = session
	if u.json {
		return u.printResult(session, err)
	}
	if err != nil {
		return err
	}
	u.announce(session)
	if !open || session.URL == "" || connectText(session) != "" { // which was printed: there is no page to look at
		return nil
	}
	if ep := session.Endpoint; ep != nil && ep.Guess {
		u.Say("the job serves a web page of an unknown kind; `tunctl open %s` opens it", u.name)
		return nil
	}
	opened, err := openPage(ctx, u.Terminal, u.client, action.Page{Session: u.name})
	if opened != "" { // its address was printed just now
		u.Say("%s opened the page", u.Paint(term.Green, "✓"))
	}
	return err
}

// bringUp requests the session and waits until it is ready or has failed.
func (u *up) bringUp(ctx context.Context) (api.Session, error) {
	if !u.attaches { // else it was connected to the job's host
		st, err := startAgent(ctx, u.Terminal, u.client, u.paths)
		if err != nil {
			return api.Session{}, err
		}
		if s, known := st.Session(u.name); u.request != nil || known && s.IsUp() { // a session that is down is not started with errors in the config: that says why
			warnAboutConfig(u.Terminal, st)
		}
	}
	u.waiter = rand.Text()
	waiting, cancel := u.deadline(ctx)
	defer cancel()
	session, err := u.follow(waiting)
	_, silent := errors.AsType[exitError](err)
	switch {
	case silent: // its message was printed
		return session, err
	case ctx.Err() != nil:
		u.Say("stopped waiting; %s", u.remains(session, u.now(ctx, session)))
		return session, exitError(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded) && session.Name == "":
		return session, api.Errorf(api.CodeTimeout, "the agent did not respond in time").
			WithHint("`tunctl status` shows what it has started")
	case errors.Is(err, context.DeadlineExceeded):
		return session, u.timedOut(session, u.now(ctx, session))
	}
	return session, err
}

// nowWait is how long up waits for the agent to end the permission to submit.
const nowWait = 2 * time.Second

// now is the session once nobody waits any more: its job may have been submitted since it was last seen.
func (u *up) now(ctx context.Context, last api.Session) api.Session {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nowWait)
	defer cancel()
	for now := last; ; {
		st, err := u.client.Status(ctx)
		s, ok := st.Session(u.name)
		if err != nil || !ok {
			return now
		}
		if now = s; !now.AwaitsSubmission() || ctxtime.Sleep(ctx, 50*time.Millisecond) != nil {
			return now
		}
	}
}

// timedOut is the error when the wait is over; it says what continues.
func (u *up) timedOut(last, s api.Session) error {
	e := api.Errorf(api.CodeTimeout, "session %q is still %s%s", u.name, s.State, show.Because(s.Cause)).
		WithHint("%s", u.remains(last, s))
	if s.State == api.SessionReady { // just now
		e.Message = fmt.Sprintf("session %q was not ready in time", u.name)
	}
	if s.Hint != "" { // what to do about it
		e.Hint = s.Hint + "; " + e.Hint
	}
	return e
}

func (u *up) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case u.wait > 0:
		return context.WithTimeout(ctx, u.wait)
	case u.Interactive:
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, waitWithoutTerminal)
}

// follow watches events from before the request, so that no question of a host is missed, and
// returns when the session is ready or settled.
func (u *up) follow(ctx context.Context) (api.Session, error) {
	q := &promptReader{term: u.Terminal, client: u.client}
	events, stop := q.events(ctx, u.waiter)
	defer stop()
	first, ok := <-events
	if !ok && ctx.Err() != nil {
		return api.Session{}, ctx.Err()
	} else if !ok {
		return api.Session{}, api.Errorf(api.CodeAgent, "the agent has stopped")
	}
	answer, err := u.send(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // it may query the scheduler before it answers
		return sessionIn(first, u.name), err
	}
	if err != nil {
		return api.Session{}, err
	}
	session := answer.Session
	u.name = session.Name
	screen := u.Terminal
	if u.json {
		screen = term.New(nil, nil, io.Discard)
	}
	draw := show.NewProgress(screen, u.attaches)
	defer draw.Stop()
	for {
		if len(session.Candidates) > 0 && u.Interactive && !u.json {
			if answer, err = u.choose(ctx, session.Candidates); err != nil {
				return session, err
			}
			session = answer.Session
		}
		draw.Show(session)
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
		if was.AwaitsSubmission() && !session.MaySubmit && looksForJob(session) {
			return session, api.Errorf(api.CodeTimeout, "still waiting for %s after %s%s", u.name, api.DurationText(time.Since(answer.At)), show.Because(session.Cause)).
				WithHint("%s", u.remains(was, session))
		}
	}
}

// looksForJob reports whether a session has yet to find or submit its job.
func looksForJob(s api.Session) bool {
	return s.Job == nil && !s.State.Settled() && s.State != api.SessionReady
}

// send sends the request to the agent.
func (u *up) send(ctx context.Context) (api.UpResponse, error) {
	if u.request != nil {
		return u.request(ctx)
	}
	req := u.choices
	req.Waiter = u.waiter
	for _, req.Session = range u.others {
		_, _ = u.client.Up(ctx, req) // which says why not when it is its turn
	}
	req.Session = u.name
	return u.client.Up(ctx, req)
}

// choose has the user choose one of several jobs of the session's name, and requests the
// session with that one.
func (u *up) choose(ctx context.Context, jobs []api.Job) (api.UpResponse, error) {
	u.Say("Several jobs of this name are running on the host:")
	job, err := chooseJob(ctx, u.Terminal, lists.Map(jobs, func(j api.Job) api.Candidate { return api.Candidate{Job: j} }))
	if err != nil {
		return api.UpResponse{}, err
	}
	req := u.choices
	req.Session, req.Waiter, req.Job, req.As = u.name, u.waiter, job, "" // a second session has its name by now
	return u.client.Up(ctx, req)
}

// next waits for the session's next state. Events before the request are out of date.
func (u *up) next(ctx context.Context, events <-chan api.Event, from time.Time, now api.Session) (api.Session, error) {
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok && ctx.Err() == nil:
				return now, api.Errorf(api.CodeAgent, "the agent has stopped").
					WithHint("`tunctl agent log` shows why; `tunctl up %s` starts it again", u.name)
			case !ok:
				return now, ctx.Err()
			case e.Time.Before(from):
				continue
			case u.json:
				if err := u.PrintJSON(upLine{Type: "event", Event: &e}); err != nil {
					return now, err
				}
			case e.Type == api.EventNotice && e.Notice.Session == u.name:
				u.Say("! %s", e.Notice.Text)
			}
			if e.Type == api.EventSession && e.Session.Name == u.name {
				return *e.Session, nil
			}
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// failure is the error of a session that settled without being ready.
func (u *up) failure(s api.Session) error {
	e := api.Errorf(cmp.Or(s.Code, api.CodeFailed), "%s", s.Cause).WithHint("%s", s.Hint)
	switch {
	case s.State == api.SessionDown:
		e.Message = s.Name + " was taken down meanwhile"
	case e.Message == "":
		e.Message = fmt.Sprintf("session %q is %s", s.Name, s.State)
	}
	if s.State == api.SessionNeedsLogin && s.AwaitsSubmission() { // the permission ends with this command
		e.Hint = strings.TrimPrefix(fmt.Sprintf("%s; then `tunctl up %s` again", e.Hint, s.Name), "; ")
	}
	return e
}

// announce prints the address of the page, or the forwards.
func (u *up) announce(s api.Session) {
	on := ""
	if s.Job != nil && s.Job.Node != "" {
		on = ", on " + s.Job.Node
	}
	u.Say("%s %s is ready%s%s", u.Paint(term.Green, "✓"), u.Paint(term.Bold, s.Name), show.Until(s.Job, time.Now()), on)
	if s.URL != "" {
		fmt.Fprintln(u.Out, s.URL)
	}
	for _, text := range append(s.Warnings, show.Exposure(s)) {
		if text != "" {
			u.Say("! %s", text)
		}
	}
	if ep := s.Endpoint; s.App == "" && ep != nil && slices.Contains([]string{"tensorboard", "mlflow", "dask", "ray", "spark"}, ep.App) {
		u.Say("  the job has announced %s first, and may announce more: `tunctl status %s` lists all; app = \"jupyter\" in the session waits for the notebook", ep.App, s.Name)
	}
	if text := connectText(s); text != "" {
		u.Say("  %s", text)
	}
	if s.App == api.AppShell {
		u.Say("  `tunctl ssh %s` is a shell inside job %s on %s; `tunctl code %s` opens an editor there", s.Name, s.Job.ID, s.Job.Node, s.Name)
	}
	for _, f := range s.Forwards {
		switch {
		case f.Error != "" && f.Kind == api.ForwardRemote:
			u.Say("! %s: %s", f.Listen, f.Error)
			continue
		case s.URL != "" && (f.Listen == s.Local || f.Endpoint != ""):
			continue // the page, and those that `open --which` opened
		}
		u.Say("  %s", show.Forward(f, show.JobPlace(s)))
		if s.URL == "" && !term.IsTerminal(u.Out) { // a script reads the addresses
			fmt.Fprintln(u.Out, f.Listen)
		}
	}
}

// connectText says how to use what a session's job serves, if it is no page to look at.
func connectText(s api.Session) string {
	if s.Endpoint == nil {
		return ""
	}
	page := api.OpenResponse{URL: s.URL, App: s.Endpoint.App}
	return page.ConnectText()
}

// printResult prints the last line of --json.
func (u *up) printResult(s api.Session, err error) error {
	if err == nil {
		return u.PrintJSON(upLine{Type: "session", Session: &s})
	}
	return errors.Join(u.PrintJSON(upLine{Type: "error", Error: api.AsError(err)}), exitError(exitCode(err)))
}

// remains says what continues when nobody waits any more, and how to end it.
func (u *up) remains(last, now api.Session) string {
	mayAppear := now.AwaitsSubmission() || now.State == api.SessionSubmitting
	switch jobs := now.LiveText(); {
	case u.name == "": // the agent has not answered yet
		return "`tunctl status` shows what the agent has started"
	case jobs != "":
		return fmt.Sprintf("what was submitted stays: `tunctl up %s` waits again, `tunctl down %s --cancel` ends %s", u.name, u.name, jobs)
	case mayAppear:
		return fmt.Sprintf("the job may still be submitted: `tunctl status %s` shows it, `tunctl down %s --cancel` ends it; only `tunctl up %s` submits another", u.name, u.name, u.name)
	case last.AwaitsSubmission():
		return fmt.Sprintf("no job was submitted, and none will be until the next `tunctl up %s`", u.name)
	}
	return fmt.Sprintf("it continues in the background: `tunctl up %s` waits again, `tunctl down %s` stops it", u.name, u.name)
}

// withFlag is --with NAME=VALUE, which may be given several times.
func withFlag(usage string) cli.Flag {
	return cmdline.RepeatedFlag{StringSliceFlag: &cli.StringSliceFlag{Name: "with", Usage: usage}}
}

// answersOf is --with NAME=VALUE by the names; the last of several for one name counts.
func answersOf(c *cli.Context) (map[string]string, error) {
	answers := map[string]string{}
	for _, text := range c.StringSlice("with") {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("--with takes NAME=VALUE, not %q", text)
		}
		answers[name] = value
	}
	return answers, nil
}
