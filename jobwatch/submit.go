package jobwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// Submission is a job to be submitted exactly once.
type Submission struct {
	// Tag names the submission. Submitting the same tag again, from here or from
	// another machine with the same home, never makes a second job.
	Tag string
	// Script is the path of the job script on the host; ~/ is the home folder.
	Script string
	// Content is the job script itself, when it does not lie on the host, and Base
	// its file name there.
	Content []byte
	Base    string
	// Args are extra words for the scheduler's submit command.
	Args []string
	// Workdir is the folder to submit from; the home folder if empty.
	Workdir string
	// Session is whose job it is; only for people who look into the tag's folder.
	Session string
}

// DoubtError says that a submission's outcome cannot be found out: the job may exist.
// A person must look before anything is submitted again under another tag.
type DoubtError struct {
	Tag   string
	Words string
}

// Error implements error.
func (e *DoubtError) Error() string {
	return "tunctl cannot tell whether the job was submitted: " + e.Words
}

// errDoubt is a verdict: the answer does not tell whether there is a job.
var errDoubt = errors.New("the scheduler's answer was lost")

// answer is what the scheduler's submit command said.
type answer struct {
	exit           int
	stdout, stderr string
}

// killed reports whether the command did not end by itself: by its time limit, or by
// a signal that somebody sent. PBS's own statuses begin above these.
func (a answer) killed() bool {
	switch a.exit {
	case 124, 128 + 1, 128 + 2, 128 + 3, 128 + 9, 128 + 13, 128 + 15:
		return true
	}
	return false
}

const (
	// handOvers is how often we wait for a submit command that hangs, each time for
	// most of a command's time limit.
	handOvers = 4
	// looks is how often we look for the job after an answer that does not tell.
	looks = 3
)

// Submit submits a job, or finds the one that was submitted under the same tag. After
// an error that says that the link was lost, the same call with the same tag is the
// way on. A refusal is an *api.Error with api.CodeSubmit; a new attempt needs a new
// tag. See DoubtError for what a person must settle.
func (w *Watcher) Submit(ctx context.Context, s Submission) (api.Job, error) {
	if err := s.check(); err != nil {
		return api.Job{}, &api.Error{Code: api.CodeSubmit, Message: err.Error(), Err: err}
	}
	sched, err := w.scheduler(ctx)
	if err != nil {
		return api.Job{}, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return api.Job{}, err
	}
	defer leave()
	w.log.Info("submitting a job", "tag", s.Tag, "scheduler", sched.name())
	job, err := w.submit(ctx, sched, s)
	if err != nil {
		return api.Job{}, err
	}
	w.log.Info("submitted a job", "tag", s.Tag, "job", job.ID)
	w.changed()
	return job, nil
}

func (w *Watcher) submit(ctx context.Context, sched scheduler, s Submission) (api.Job, error) {
	if c, ok := sched.(clustered); ok {
		c.include(s.Args)
	}
	a, note, err := w.handOver(ctx, sched, s)
	if err != nil && !errors.Is(err, errDoubt) {
		return api.Job{}, err
	}
	id := ""
	if err == nil {
		id, err = sched.verdict(a)
	}
	if errors.Is(err, errDoubt) {
		var found api.Job
		if found, err = w.look(ctx, sched, s.Tag, a); err == nil {
			if array, ok := sched.(arrays); ok { // sbatch would have answered so too
				found.ID = array.whole(found.ID)
			}
			id = found.Ref()
		}
	}
	if err != nil {
		return api.Job{}, err
	}
	return w.submitted(ctx, sched, s, id, note), nil
}

// handOver runs the submit script until the scheduler's answer is on the host's disk.
func (w *Watcher) handOver(ctx context.Context, sched scheduler, s Submission) (answer, string, error) {
	mark := newMark()
	script := submitScript(sched.submit(), s, mark, w.sh.limit*6/10)
	for range handOvers {
		res, err := w.sh.login(ctx, script)
		if err != nil {
			return answer{}, "", err
		}
		switch res.Exit {
		case submitDone:
			return readAnswer(res, mark)
		case submitPending:
			continue
		}
		return answer{}, "", &api.Error{Code: api.CodeSubmit, Message: "cannot submit the job: " + firstComplaint(res)}
	}
	return answer{}, "", errDoubt
}

func readAnswer(res Result, mark string) (answer, string, error) {
	parts := sections(string(res.Stdout), mark)
	exit, err := strconv.Atoi(strings.TrimSpace(parts["exit"]))
	if err != nil {
		return answer{}, "", errDoubt
	}
	return answer{exit: exit, stdout: parts["out"], stderr: parts["err"]}, strings.TrimSpace(parts["note"]), nil
}

// look finds the job of a tag whose answer was lost. That it is not there proves
// nothing: a stalled controller takes the request up when it wakes.
func (w *Watcher) look(ctx context.Context, sched scheduler, tag string, a answer) (api.Job, error) {
	for i := range looks {
		if i > 0 {
			if err := sleep(ctx, w.limits.QueryMin); err != nil {
				return api.Job{}, err
			}
		}
		job, err := sched.tagged(ctx, w.sh, tag)
		if err == nil {
			return job, nil
		}
		w.log.Debug("looked for a submitted job", "tag", tag, "err", err)
	}
	words := firstComplaint(Result{Stdout: []byte(a.stdout), Stderr: []byte(a.stderr), Exit: a.exit})
	doubt := &DoubtError{Tag: tag, Words: words}
	return api.Job{}, &api.Error{
		Code:    api.CodeNeedsPerson,
		Message: doubt.Error(),
		Hint:    "list your jobs on the host when the scheduler responds; start the session again only if this job is not among them",
		Err:     doubt,
	}
}

// submitted is the new job, with as much as the scheduler tells of it right away.
func (w *Watcher) submitted(ctx context.Context, sched scheduler, s Submission, ref, note string) api.Job {
	id, cluster := splitRef(ref)
	job, err := sched.detail(ctx, w.sh, ref)
	if err != nil {
		w.log.Debug("no detail of a new job yet", "job", ref, "err", err)
		job = api.Job{State: api.JobQueued, Submitted: time.Now().UTC()}
	}
	job = sched.asRequested(job, id)
	job.ID, job.Cluster = id, cluster
	if job.Script == "" {
		job.Script = tagFolder(s.Tag) + s.base()
	}
	if note != "" {
		job.Hint = strings.TrimPrefix(job.Hint+"; "+note, "; ")
	}
	return job
}

// tagRoot is the folder, in the home on the host, that holds the submissions.
const tagRoot = ".tunctl"

func tagFolder(tag string) string { return "~/" + tagRoot + "/" + tag + "/" }

// hasTag reports whether job was submitted from the folder of tag.
func hasTag(job api.Job, tag string) bool {
	return strings.Contains(job.Script, "/"+tagRoot+"/"+tag+"/")
}

// ownPrefix begins the names of our own files in a tag's folder.
const ownPrefix = "tunctl."

var validTag = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (s Submission) base() string {
	if s.Base != "" {
		return s.Base
	}
	return path.Base(s.Script)
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
