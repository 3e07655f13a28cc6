package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/setup"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func runCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run one command in a job of its own, and show its output",
		ArgsUsage: "SESSION|HOST -- COMMAND...",
		Flags: []cli.Flag{
			withFlag("for this job, use `NAME=VALUE`; repeatable"),
			waitFlag(),
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the job and do not wait for it"},
		},
		Action: invokeInterruptible(t, runInJob),
	}
}

// jobRun is one `tunctl run`.
type jobRun struct {
	*invocation
	host string
	job  api.Job
	out  *commandOutput
	read int64 // how much of the log was shown
}

func runInJob(ctx context.Context, inv *invocation) error {
	host, req, err := runRequest(ctx, inv)
	if err != nil {
		return err
	}
	if err := inv.connectHost(ctx, host, inv.authenticate); err != nil {
		return inv.withNearSession(inv.Args().First(), err)
	}
	job, err := inv.client.Submit(ctx, host, req)
	if api.HasCode(err, api.CodeNoScheduler) && inv.Interactive {
		if yes, _ := inv.Agrees(ctx, setup.OwnMachineQuestion(host), false); yes {
			if err := setup.SetOwnMachine(ctx, inv.client, inv.paths.Config, host); err != nil {
				return err
			}
			job, err = inv.client.Submit(ctx, host, req)
		}
	}
	if ctx.Err() != nil && job.ID == "" {
		inv.Say("the job may still be submitted on %s: `tunctl status` shows it if it appears", host)
	}
	if req.Session == "" && api.HasCode(err, api.CodeConfig) {
		err = api.ReplaceHint(err, "give it by --with NAME=VALUE")
	}
	if err != nil {
		return err
	}
	inv.Say("%s submitted %s", inv.Paint(term.Green, "✓"), show.Job(job, time.Now()))
	if inv.Bool("detach") {
		fmt.Fprintln(inv.Out, job.ID)
		return nil
	}
	r := &jobRun{invocation: inv, host: host, job: job, out: &commandOutput{end: []byte(configs.RunEnd(req.Mark)), to: inv.Out}}
	if term.IsTerminal(inv.Out) {
		safe := api.NewSanitizer(inv.Out)
		defer safe.ResetColour()
		r.out.to = safe
	}
	err = r.follow(ctx)
	if ctx.Err() != nil {
		return r.interrupted(context.WithoutCancel(ctx))
	}
	return err
}

// runRequest reads the arguments.
func runRequest(ctx context.Context, inv *invocation) (host string, req api.SubmitRequest, err error) {
	words := inv.Args().Slice()
	i := slices.Index(words, "--")
	if i != 1 || len(words) < 3 || words[2] == "" {
		return "", req, usagef("run takes a session or a host, and after -- a command: `tunctl run SESSION -- nvidia-smi -L`")
	}
	if inv.IsSet("wait") && inv.Duration("wait") <= 0 {
		return "", req, usagef("--wait takes a time such as 30m or 2h")
	}
	req.Command, req.Mark = words[2:], rand.Text()
	for _, word := range req.Command {
		if !utf8.ValidString(word) {
			return "", req, usagef("%q is not UTF-8: put it into a script, and run that", word)
		}
	}
	if req.With, err = answersOf(inv.Context); err != nil {
		return "", req, err
	}
	st, err := inv.ensureAgent(ctx)
	to := parseDestination(readConfig(inv.paths), st, words[0])
	req.Session = to.Session
	return to.Host, req, err
}

// runRetry is how long it waits before it reads the log again.
const runRetry = 2 * time.Second

// follow shows the output of the job to its end. An agent that has stopped is started again; it reads
// the log from the beginning.
func (r *jobRun) follow(outer context.Context) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	wait := time.Duration(math.MaxInt64)
	if !r.Interactive {
		wait = waitWithoutTerminal
	}
	start := time.AfterFunc(cmp.Or(r.Duration("wait"), wait), cancel)
	defer start.Stop()
	for {
		ended, err := r.readLog(ctx, start)
		if r.out.ended {
			return r.out.result()
		}
		if ctx.Err() != nil && outer.Err() == nil { // it has not started in time
			return api.Errorf(api.CodeTimeout, "job %s is still %s%s", r.job.ID, r.job.State, show.Because(show.Why(r.job))).WithHint("%s", r.remains())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ended != "" {
			_, _ = r.out.to.Write(r.out.held) // it is no such line after all
			return api.Errorf(api.CodeJobEnded, "the job ended before the command: %s", ended).
				WithHint("`tunctl logs %s %s` shows its log again", r.host, r.job.Ref())
		}
		if err != nil && !slices.Contains([]api.Code{api.CodeAgent, api.CodeUnreachable, api.CodeNotReady}, api.AsError(err).Code) {
			return api.ReplaceHint(err, "%s", r.remains())
		}
		_ = ctxtime.Sleep(ctx, runRetry)
		if err := r.connectHost(ctx, r.host, r.authenticate); err != nil && ctx.Err() == nil {
			return api.ReplaceHint(err, "%s", r.remains())
		}
	}
}

// readLog shows the log until the command or the job has ended, or it cannot be read any more. It says
// how the job ended.
func (r *jobRun) readLog(outer context.Context, start *time.Timer) (ended string, err error) {
	ctx, stop := context.WithCancel(outer)
	defer stop()
	shown := int64(0)
	query := api.LogQuery{Host: r.host, Job: r.job.Ref(), Follow: true, Secrets: true, Whole: true}
	err = r.client.Log(ctx, query, func(chunk api.LogChunk) {
		ended = chunk.Ended
		if chunk.Job != nil {
			r.changed(*chunk.Job)
		}
		if chunk.Restarted {
			r.Say("— the job was started again —")
			r.read, shown = 0, 0
		}
		text := chunk.Bytes()
		if r.job.State == api.JobRunning || len(text) > 0 {
			start.Stop()
		}
		again := min(max(r.read-shown, 0), int64(len(text)))
		shown += int64(len(text))
		r.read = max(r.read, shown)
		_ = r.out.write(text[again:]) // an error ends ctx
		if r.out.ended {
			stop()
		}
	})
	if !api.HasCode(err, api.CodeNotReady) {
		return ended, err
	}
	// It is not known yet where its log is, or it never ran.
	if job, unknown := r.client.Job(ctx, r.host, r.job.Ref()); unknown == nil {
		r.changed(job)
	}
	if r.job.State.Ended() {
		ended = string(r.job.State) + show.Because(show.Why(r.job))
	}
	return ended, err
}

// changed says what is new about the job.
func (r *jobRun) changed(job api.Job) {
	was := r.job
	r.job = job
	if job.State.Waiting() && (was.State != job.State || show.Why(was) != show.Why(job)) {
		r.Say("  job %s is %s%s", job.ID, job.State, show.Because(show.Why(job)))
	}
	if job.State == api.JobRunning && was.State != job.State {
		r.Say("  job %s runs on %s", job.ID, job.Node)
	}
}

// remains says what continues, and how to end it.
func (r *jobRun) remains() string {
	return fmt.Sprintf("job %s stays: `tunctl logs %s %s -f` shows its output, `tunctl cancel %s %s` ends it", r.job.ID, r.host, r.job.Ref(), r.host, r.job.Ref())
}

// interrupted asks whether to end the job, or says that it stays.
func (r *jobRun) interrupted(ctx context.Context) error {
	ctx, stop := interruptible(ctx) // a second Ctrl-C is no answer: the job stays
	defer stop()
	if r.Interactive {
		if yes, _ := r.Agrees(ctx, fmt.Sprintf("End job %s, too?", r.job.ID), false); yes {
			job, err := r.client.Cancel(context.WithoutCancel(ctx), r.host, r.job.Ref())
			if err != nil {
				return err
			}
			r.Say("%s", action.CancelledText(job))
			return exitError(exitInterrupted)
		}
	}
	r.Say("%s", r.remains())
	return exitError(exitInterrupted)
}

// commandOutput passes on what a command prints, until the line that the script of its job adds: see
// configs.RunEnd.
type commandOutput struct {
	end    []byte // begins that line
	to     io.Writer
	held   []byte // may be its beginning
	status string // of the command
	ended  bool
}

func (o *commandOutput) write(text []byte) error {
	if o.ended {
		return nil // of the scheduler
	}
	o.held = append(o.held, text...)
	at := bytes.Index(o.held, o.end)
	if at >= 0 {
		o.status, _, o.ended = strings.Cut(string(o.held[at+len(o.end):]), "\n")
	} else if at = bytes.LastIndexByte(o.held, o.end[0]); at < 0 || len(o.held)-at >= len(o.end) {
		at = len(o.held)
	}
	_, err := o.to.Write(o.held[:at])
	o.held = append([]byte{}, o.held[at:]...)
	return err
}

// result is the status of the command, as that of this program.
func (o *commandOutput) result() error {
	status, err := strconv.Atoi(o.status)
	if err != nil {
		return api.Errorf(api.CodeFailed, "the job's log has no exit status: %q", o.status)
	}
	return exitError(status)
}
