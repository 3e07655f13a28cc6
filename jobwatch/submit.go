package jobwatch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
)

// Submission is a job to be submitted exactly once.
type Submission struct {
	// Tag names the submission. Submitting the same tag again, from here or from another
	// computer with the same home on the host, never makes a second job.
	Tag string
	// Script is the path of the job script on the host; ~/ is the home folder.
	Script string
	// Content is the job script itself, if it is not on the host, and Base its file name
	// there.
	Content []byte
	Base    string
	// Args are extra arguments of the scheduler's submit command.
	Args []string
	// Workdir is the folder to submit from; the home folder if empty.
	Workdir string
	// Session is the name of the session, for people who look into the tag's folder.
	Session string
	// Awaited says that a person waits for the job: if it is watched, it is queried once after
	// Limits.QueryAfterSubmit.
	Awaited bool
}

// submittedJob is a job that we submitted, as the scheduler reported it then.
type submittedJob struct {
	job api.Job
	at  time.Time
}

// DoubtError says that the result of a submission is unknown: the job may exist. A person
// must check before anything is submitted under another tag.
type DoubtError struct {
	Tag   string
	Words string
}

// Error implements error.
func (e *DoubtError) Error() string {
	return "tunctl cannot tell whether the job was submitted: " + e.Words
}

// errDoubt means that the answer does not show whether the job exists.
var errDoubt = errors.New("the scheduler's answer was lost")

// killedStatuses are of a submit command that was ended by its time limit or by a signal. PBS's own
// statuses are above these.
var killedStatuses = []int{124, 128 + 1, 128 + 2, 128 + 3, 128 + 9, 128 + 13, 128 + 15}

const (
	// maxSubmitWaits is how often we wait for a submit command that hangs, each time for
	// most of a command's time limit.
	maxSubmitWaits = 4
	// maxLooks is how often we look for the job after errDoubt.
	maxLooks = 3
)

// Submit submits a job, or finds the one that was submitted under the same tag. After
// ErrLost, repeat the call with the same tag. A refusal is an *api.Error with
// api.CodeSubmit; a new attempt needs a new tag. After a DoubtError, a person must decide.
func (w *Watcher) Submit(ctx context.Context, s Submission) (api.Job, error) {
	if err := s.check(); err != nil {
		return api.Job{}, api.Errorf(api.CodeSubmit, "%w", err)
	}
	sched, unlock, err := w.acquire(ctx)
	if err != nil {
		return api.Job{}, err
	}
	defer unlock()
	w.log.Info("submitting a job", "tag", s.Tag, "scheduler", sched.kind().name)
	job, err := w.submit(ctx, sched, s)
	if err != nil {
		return api.Job{}, err
	}
	w.log.Info("submitted a job", "tag", s.Tag, "job", job.ID)
	w.rememberSubmitted(job, s.Awaited)
	w.changed()
	return job, nil
}

// rememberSubmitted records a job that was submitted, so that its watch recognizes its start.
func (w *Watcher) rememberSubmitted(job api.Job, awaited bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.submitted, func(_ string, s submittedJob) bool { return time.Since(s.at) > Grace })
	w.submitted[job.Ref()] = submittedJob{job, time.Now()}
	if awaited && w.limits.QueryAfterSubmit > 0 {
		w.early = time.Now().Add(w.limits.WithJitter(w.limits.QueryAfterSubmit))
	}
}

func (w *Watcher) submit(ctx context.Context, sched scheduler, s Submission) (api.Job, error) {
	sched.addClusters(s.Args)
	a, note, err := w.runSubmit(ctx, sched, s)
	if err != nil && !errors.Is(err, errDoubt) {
		return api.Job{}, err
	}
	id := ""
	if err == nil {
		id, err = sched.parseSubmit(a)
	}
	if errors.Is(err, errDoubt) {
		var found api.Job
		if found, err = w.findSubmitted(ctx, sched, s.Tag, a); err == nil {
			id = wholeJob(sched, found)
		}
	}
	if err != nil {
		return api.Job{}, err
	}
	return w.describeSubmitted(ctx, sched, s, id, note), nil
}

// runSubmit runs the submit script until the scheduler's answer is on the host's disk. It
// returns the answer and a note for the person.
func (w *Watcher) runSubmit(ctx context.Context, sched scheduler, s Submission) (remote.Result, string, error) {
	mark := remote.NewMark()
	script := submitScript(w.sh, sched.kind().submit, s, mark)
	for range maxSubmitWaits {
		res, err := w.sh.Login(ctx, script)
		if err != nil {
			return remote.Result{}, "", err
		}
		switch res.Exit {
		case submitDone:
			return readAnswer(res, mark)
		case submitPending:
			continue
		}
		return remote.Result{}, "", submitScriptError(res)
	}
	return remote.Result{}, "", errDoubt
}

// submitScriptError is the error of a submit script that submitted nothing. If its own message ends
// in a colon, the line before it has the cause.
func submitScriptError(res remote.Result) error {
	words := lastErrorLine(res)
	text := bytes.TrimSpace(res.Stderr)
	if at := bytes.LastIndexByte(text, '\n'); at > 0 && strings.HasSuffix(words, ":") {
		words += " " + lastErrorLine(remote.Result{Stderr: text[:at]})
	}
	return api.Errorf(api.CodeSubmit, "cannot submit the job: %s", words).WithHint("%s", hintOf(words, noRoom))
}

// noRoom are the messages of a full disk.
var noRoom = refusalHints([][2]string{{diskFull, diskFullHint}})

func readAnswer(res remote.Result, mark string) (remote.Result, string, error) {
	parts := sections(string(res.Stdout), mark)
	exit, err := strconv.Atoi(strings.TrimSpace(parts["exit"]))
	if err != nil {
		return remote.Result{}, "", errDoubt
	}
	return remote.Result{Exit: exit, Stdout: []byte(parts["out"]), Stderr: []byte(parts["err"])}, strings.TrimSpace(parts["note"]), nil
}

// findSubmitted finds the job of a tag whose answer was lost. If it is not found, it may
// still exist later: a stalled controller processes the request when it recovers.
func (w *Watcher) findSubmitted(ctx context.Context, sched scheduler, tag string, res remote.Result) (api.Job, error) {
	for i := range maxLooks {
		if i > 0 {
			if err := ctxtime.Sleep(ctx, w.limits.QueryMin); err != nil {
				return api.Job{}, err
			}
		}
		job, err := sched.findTagged(ctx, w.sh, tag)
		if err == nil {
			return job, nil
		}
		w.log.Debug("looked for a submitted job", "tag", tag, "err", err)
	}
	doubt := &DoubtError{Tag: tag, Words: lastErrorLine(res)}
	return api.Job{}, api.Errorf(api.CodeNeedsPerson, "%w", doubt).
		WithHint("list your jobs on the host when the scheduler responds; start the session again only if this job is not among them")
}

// wholeJob is what the submit command would have printed for a job: of a task, its array.
func wholeJob(sched scheduler, job api.Job) (ref string) {
	job.ID = sched.arrayOf(job.ID)
	return job.Ref()
}

// describeSubmitted is the new job, with what the scheduler already reports of it. A site's
// wrapper may print other numbers than the job's id: if ref is not the job of our script, the
// one that is has precedence, which only Slurm tells. If there is none, as where a wrapper
// submits a copy, it stays.
func (w *Watcher) describeSubmitted(ctx context.Context, sched scheduler, s Submission, ref, note string) api.Job {
	job, err := sched.detail(ctx, w.sh, ref)
	if errors.Is(err, errNoJob) || err == nil && job.Script != "" && !hasTag(job, s.Tag) {
		ours, e := sched.findTagged(ctx, w.sh, s.Tag)
		if errors.Is(e, remote.ErrNoAnswer) && ctxtime.Sleep(ctx, w.limits.QueryMin) == nil {
			ours, e = sched.findTagged(ctx, w.sh, s.Tag)
		}
		if e == nil && wholeJob(sched, ours) != ref {
			w.log.Warn("the submit command printed another id", "tag", s.Tag, "printed", ref, "job", ours.ID)
			ref = wholeJob(sched, ours)
			job, err = sched.detail(ctx, w.sh, ref)
		}
	}
	id, cluster := splitRef(ref)
	if err != nil {
		w.log.Debug("no detail of a new job yet", "job", ref, "err", err)
		job = api.Job{State: api.JobQueued, Submitted: time.Now().UTC()}
	}
	job = sched.asRequested(job, id)
	job.ID, job.Cluster = id, cluster
	job.Script = cmp.Or(job.Script, cmp.Or(w.sh.Private, "~/"+remote.FolderName)+"/"+s.Tag+"/"+s.base())
	if note != "" {
		job.Hint = strings.TrimPrefix(job.Hint+"; "+note, "; ")
	}
	return job
}

// tagFolder is the folder of one submission, as a word of sh.
func tagFolder(sh *remote.Shell, tag string) string { return sh.Folder() + "/" + posixsh.Quote(tag) }

// submitOutput is what the submit command of a tag printed; empty if it printed nothing yet.
func submitOutput(ctx context.Context, sh *remote.Shell, tag string) (remote.Result, error) {
	res, err := sh.InFolder(ctx, "cat "+tagFolder(sh, tag)+"/tunctl.out 2>/dev/null\n:")
	return remote.Result{Stdout: res.Stdout}, err
}

// hasTag reports whether job was submitted from the folder of tag.
func hasTag(job api.Job, tag string) bool {
	return strings.Contains(job.Script, "/"+remote.FolderName+"/"+tag+"/")
}

// withTag returns the job that was submitted from the folder of tag.
func withTag(jobs []api.Job, tag string) (api.Job, error) {
	for _, job := range jobs {
		if hasTag(job, tag) {
			return job, nil
		}
	}
	return api.Job{}, errNoJob
}

// ownPrefix begins the names of our own files in a tag's folder.
const ownPrefix = "tunctl."

var validTag = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (s Submission) base() string {
	return cmp.Or(s.Base, path.Base(s.Script))
}

func (s Submission) check() error {
	base := s.base()
	switch {
	case !validTag.MatchString(s.Tag):
		return fmt.Errorf("%q is not a valid tag", s.Tag)
	case s.Script == "" && len(s.Content) == 0:
		return errors.New("the job script is empty")
	case bytes.IndexByte(s.Content, 0) >= 0:
		return errors.New("the job script is not text: it contains a NUL byte")
	case base == "." || base == ".." || base == "/" || strings.ContainsAny(base, "/\x00\n") || strings.HasPrefix(base, ownPrefix):
		return fmt.Errorf("%q is not a valid name for a job script", base)
	}
	return nil
}

// Start is what a scheduler says about when a job would start. All of it is an estimate.
type Start struct {
	At    time.Time // zero: it does not tell
	Words string    // what it tells besides or instead
	// Submitted is the job that a command submitted which should only have tested it;
	// Cancelled says that it was cancelled.
	Submitted string
	Cancelled bool
}

// TestStart asks the scheduler when a job would start, without submitting it. If the scheduler would refuse the job, that is an *api.Error with
// api.CodeSubmit. It counts as a query: callers wait for Limits.QueryMin.
func (w *Watcher) TestStart(ctx context.Context, s Submission) (Start, error) {
	sched, err := w.scheduler(ctx)
	if err != nil {
		return Start{}, err
	}
	if sched.kind().asksStart {
		unlock, err := w.awaitTurn(ctx)
		if err != nil {
			return Start{}, err
		}
		defer unlock()
	}
	start, err := sched.testStart(ctx, w.sh, s)
	if start.Submitted != "" {
		w.log.Warn("the test of a job submitted it", "job", start.Submitted, "cancelled", start.Cancelled)
		w.changed()
	}
	return start, err
}

// awaitTurn waits until no other command runs on the host, and the last query is
// Limits.QueryMin ago.
func (w *Watcher) awaitTurn(ctx context.Context) (unlock func(), err error) {
	for {
		w.mu.Lock()
		wait := time.Until(w.lastQuery.Add(w.limits.QueryMin))
		w.mu.Unlock()
		if err := ctxtime.Sleep(ctx, wait); err != nil {
			return nil, err
		}
		if unlock, err = w.lockHost(ctx); err != nil {
			return nil, err
		}
		w.mu.Lock()
		due := time.Since(w.lastQuery) >= w.limits.QueryMin
		if due {
			w.lastQuery = time.Now()
		}
		w.mu.Unlock()
		if due {
			return unlock, nil
		}
		unlock() // the watches have made a query meanwhile
	}
}
