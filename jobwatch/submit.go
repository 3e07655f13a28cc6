package jobwatch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// DoubtError says that the result of a submission is unknown: the job may exist. The user
// must check before anything is submitted under another tag.
type DoubtError struct {
	Tag   string
	Words string
}

// Error implements error.
func (e *DoubtError) Error() string {
	return "tunctl cannot tell whether the job was submitted: " + e.Words
}

const (
	// maxSubmitWaits is how often we wait for a submit command that hangs, each time for
	// most of a command's time limit.
	maxSubmitWaits = 4
	// maxLooks is how often we look for the job after ErrDoubt.
	maxLooks = 3
)

// Submit submits a job, or finds the one that was submitted under the same tag. After
// ErrLost, repeat the call with the same tag. A refusal is an *api.Error with
// api.CodeSubmit; a new attempt needs a new tag. After a DoubtError, the user must decide.
func (w *Watcher) Submit(ctx context.Context, s Submission) (api.Job, error) {
	if err := s.check(); err != nil {
		return api.Job{}, api.Errorf(api.CodeSubmit, "%w", err)
	}
	scheduler, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return api.Job{}, err
	}
	defer unlock()
	if err := w.host.processError(scheduler.Kind()); err != nil {
		return api.Job{}, err
	}
	w.host.log.Info("submitting a job", "tag", s.Tag, "scheduler", scheduler.Kind().Name)
	job, err := (&submitter{w.host}).submit(ctx, scheduler, s)
	if err != nil {
		return api.Job{}, err
	}
	w.host.log.Info("submitted a job", "tag", s.Tag, "job", job.ID)
	w.poll.recordSubmitted(job, s.Awaited)
	w.poll.changed()
	return job, nil
}

// submitter makes one submission, while nobody else runs a command on the host.
type submitter struct{ host *host }

func (u *submitter) submit(ctx context.Context, scheduler sched.Scheduler, s Submission) (api.Job, error) {
	scheduler.AddClusters(s.Args)
	a, note, err := u.runSubmit(ctx, scheduler, s)
	id := ""
	if err == nil {
		id, err = scheduler.ParseSubmit(a)
	} else if !errors.Is(err, sched.ErrDoubt) {
		return api.Job{}, err
	}
	if err != nil {
		found, err := u.findSubmitted(ctx, scheduler, s.Tag, a, err)
		if err != nil {
			return api.Job{}, err
		}
		id = sched.WholeRef(scheduler, found)
	}
	return u.describeSubmitted(ctx, scheduler, s, id, note), nil
}

// runSubmit runs the submit script until the scheduler's answer is on the host's disk. It
// returns the answer and a note for the user. Only the script itself can say that nothing was submitted:
// whoever ended it before that may have left its submit command running.
func (u *submitter) runSubmit(ctx context.Context, scheduler sched.Scheduler, s Submission) (remote.Result, string, error) {
	mark := remote.NewMark()
	script := submitScript(u.host.sh, scheduler.Kind(), s, mark)
	for range maxSubmitWaits {
		res, err := u.host.sh.Login(ctx, script)
		if e, ended := errors.AsType[*api.Error](err); ended {
			return remote.Result{Stderr: []byte(e.Message)}, "", sched.ErrDoubt
		}
		if err != nil {
			return remote.Result{}, "", err
		}
		switch res.Exit {
		case submitDone:
			return readAnswer(res, mark)
		case submitPending:
			continue
		case submitFailed:
			return remote.Result{}, "", submitScriptError(res)
		case submitUnreached:
			return remote.Result{}, "", &UnreachedError{Words: sched.Complaint(res)}
		}
		return remote.Result{Stderr: fmt.Appendf(nil, "the commands that submit it were ended with status %d", res.Exit)}, "", sched.ErrDoubt
	}
	return remote.Result{Stderr: []byte("the submit command has not ended")}, "", sched.ErrDoubt
}

// UnreachedError says that nothing was submitted with a tag, since the submit command did not reach
// the scheduler. It wraps remote.ErrNoAnswer: the same tag can be submitted later.
type UnreachedError struct{ Words string }

// Error implements error.
func (e *UnreachedError) Error() string { return e.Unwrap().Error() + ": " + e.Words }

// Unwrap returns remote.ErrNoAnswer.
func (e *UnreachedError) Unwrap() error { return remote.ErrNoAnswer }

// submitScriptError is the error of a submit script that submitted nothing. If its own message ends
// in a colon, the line before it has the cause.
func submitScriptError(res remote.Result) error {
	words := sched.LastErrorLine(res)
	text := bytes.TrimSpace(res.Stderr)
	if at := bytes.LastIndexByte(text, '\n'); at > 0 && strings.HasSuffix(words, ":") {
		words += " " + sched.LastErrorLine(remote.Result{Stderr: text[:at]})
	}
	return api.Errorf(api.CodeSubmit, "cannot submit the job: %s", words).WithHint("%s", sched.HintOf(words, noRoom))
}

// noRoom are the messages of a full disk.
var noRoom = sched.RefusalHints([][2]string{{sched.DiskFull, sched.DiskFullHint}})

func readAnswer(res remote.Result, mark string) (remote.Result, string, error) {
	parts := sections(string(res.Stdout), mark)
	exit, err := strconv.Atoi(strings.TrimSpace(parts["exit"]))
	if err != nil {
		return remote.Result{}, "", sched.ErrDoubt
	}
	return remote.Result{Exit: exit, Stdout: []byte(parts["out"]), Stderr: []byte(parts["err"])}, strings.TrimSpace(parts["note"]), nil
}

// findSubmitted finds the job of a tag whose submit command failed, or whose answer was lost. A refusal
// is the answer if the scheduler does not know the tag either. After a lost answer the job may still
// exist later: a stalled controller processes the request when it recovers.
func (u *submitter) findSubmitted(ctx context.Context, scheduler sched.Scheduler, tag string, res remote.Result, why error) (api.Job, error) {
	for i := range maxLooks {
		if i > 0 {
			if err := ctxtime.Sleep(ctx, u.host.limits.QueryMin); err != nil {
				return api.Job{}, err
			}
		}
		job, err := scheduler.FindTagged(ctx, u.host.sh, tag)
		if err == nil {
			return job, nil
		}
		if errors.Is(err, remote.ErrLost) { // the next call with this tag looks again
			return api.Job{}, err
		}
		if errors.Is(err, sched.ErrNoJob) && !errors.Is(why, sched.ErrDoubt) {
			return api.Job{}, why
		}
		u.host.log.Debug("looked for a submitted job", "tag", tag, "err", err)
	}
	doubt := &DoubtError{Tag: tag, Words: sched.LastErrorLine(res)}
	return api.Job{}, api.Errorf(api.CodeNeedsPerson, "%w", doubt).
		WithHint("list your jobs on the host when the scheduler responds; start the session again only if this job is not among them")
}

// describeSubmitted is the new job, with what the scheduler already reports of it. A site's
// wrapper may print other numbers than the job's id: if ref is not the job of our script, the
// one that is has precedence, which only Slurm tells. If there is none, as where a wrapper
// submits a copy, it stays.
func (u *submitter) describeSubmitted(ctx context.Context, scheduler sched.Scheduler, s Submission, ref, note string) api.Job {
	job, err := scheduler.Detail(ctx, u.host.sh, ref)
	if errors.Is(err, sched.ErrNoJob) || err == nil && job.Script != "" && !sched.HasTag(job, s.Tag) {
		ours, e := scheduler.FindTagged(ctx, u.host.sh, s.Tag)
		if errors.Is(e, remote.ErrNoAnswer) && ctxtime.Sleep(ctx, u.host.limits.QueryMin) == nil {
			ours, e = scheduler.FindTagged(ctx, u.host.sh, s.Tag)
		}
		if e == nil && sched.WholeRef(scheduler, ours) != ref {
			u.host.log.Warn("the submit command printed another id", "tag", s.Tag, "printed", ref, "job", ours.ID)
			ref = sched.WholeRef(scheduler, ours)
			job, err = scheduler.Detail(ctx, u.host.sh, ref)
		}
	}
	id, cluster := sched.SplitRef(ref)
	if err != nil {
		u.host.log.Debug("no detail of a new job yet", "job", ref, "err", err)
		job = api.Job{State: api.JobQueued, Submitted: time.Now().UTC()}
	}
	job = scheduler.AsRequested(job, id)
	job.ID, job.Cluster = id, cluster
	job.Script = cmp.Or(job.Script, cmp.Or(u.host.sh.Private, "~/"+remote.FolderName)+"/"+s.Tag+"/"+s.base())
	if note != "" {
		job.Hint = strings.TrimPrefix(job.Hint+"; "+note, "; ")
	}
	return job
}

// TestStart asks the scheduler when a job would start, without submitting it. If the scheduler would refuse the job, that is an *api.Error with
// api.CodeSubmit. It counts as a query: callers wait for Limits.QueryMin.
func (w *Watcher) TestStart(ctx context.Context, s Submission) (sched.Start, error) {
	scheduler, err := w.host.scheduler(ctx)
	if err != nil {
		return sched.Start{}, err
	}
	if scheduler.Kind().AsksStart {
		unlock, err := w.poll.awaitTurn(ctx)
		if err != nil {
			return sched.Start{}, err
		}
		defer unlock()
	}
	start, err := scheduler.TestStart(ctx, w.host.sh, sched.Trial{PrintScript: printScript(s), Args: s.Args, Workdir: s.Workdir})
	if start.Submitted != "" {
		w.host.log.Warn("the test of a job submitted it", "job", start.Submitted, "cancelled", start.Cancelled)
		w.poll.changed()
	}
	return start, err
}
