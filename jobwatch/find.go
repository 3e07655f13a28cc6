package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// ErrIncomplete means that not all jobs were looked at that could be the one of a tag: each costs
// the server, so a query looks at a few. The next one looks at others.
var ErrIncomplete = sched.ErrIncomplete

// Query says which job to find, by the first of ID, Tag and Name that is set.
type Query struct {
	ID, Tag, Name string
	// Args are the arguments that the job was or would be submitted with. They may name
	// clusters that are queried too.
	Args []string
}

// Find finds a job that was started before. By id it may have ended; by tag or by name it
// waits or runs. Of several, Find returns the one closest to running, and the newest of
// those, with a hint. If several jobs with the name run, it returns an AmbiguousError. For
// an array it returns the array, not a task. Seen is zero if the scheduler was asked during Find.
func (w *Watcher) Find(ctx context.Context, q Query) (api.Job, bool, error) {
	s, err := w.host.scheduler(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	if s.Kind().ShortList && q.ID != "" { // its id is known, or stored with its tag: no list is needed
		job, found, err := w.Detail(ctx, q.ID)
		if found {
			job = s.AsRequested(job, q.ID)
		}
		return job, found, err
	}
	if s.Kind().ShortList && q.Tag != "" {
		job, found, err := w.FindTag(ctx, q)
		if errors.Is(err, ErrIncomplete) {
			return api.Job{}, false, nil
		}
		return job, found && !job.State.Ended(), err
	}
	if s.AddClusters(q.Args) {
		w.changed()
	}
	jobs, asked, err := w.listed(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	if q.Name != "" {
		if jobs, err = w.withName(ctx, s, jobs, q.Name); err != nil {
			return api.Job{}, false, err
		}
	}
	job, found, err := q.choose(s, jobs)
	switch {
	case err != nil || !found && q.ID == "":
		return api.Job{}, false, err
	case found:
		job.Seen = asked.Round(0).UTC()
		job = w.withDetail(ctx, s, job)
	default:
		if job, found, err = w.Detail(ctx, q.ID); err != nil || !found {
			return api.Job{}, false, err
		}
	}
	return s.AsRequested(job, q.requestedID(s, job.ID)), true, nil
}

// FindTag finds the job of a submission, also an ended one, for which it asks the accounting.
// The boolean is false if the host knows of none, which may still be created; that is not known
// yet after ErrIncomplete.
func (w *Watcher) FindTag(ctx context.Context, q Query) (api.Job, bool, error) {
	s, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	defer unlock()
	s.AddClusters(q.Args)
	job, err := s.FindTagged(ctx, w.host.sh, q.Tag)
	if errors.Is(err, sched.ErrNoJob) {
		return api.Job{}, false, nil
	}
	if err != nil {
		return api.Job{}, false, err
	}
	id, _ := sched.SplitRef(sched.WholeRef(s, job))
	return w.markCancelled(s.AsRequested(job, id))[0], true, nil
}

func (w *Watcher) withName(ctx context.Context, s sched.Scheduler, jobs []api.Job, name string) ([]api.Job, error) {
	if err := w.host.turn.Lock(ctx); err != nil {
		return nil, err
	}
	defer w.host.turn.Unlock()
	return s.WithName(ctx, w.host.sh, jobs, name)
}

// requestedID is the id that the job is known by from now on.
func (q Query) requestedID(s sched.Scheduler, found string) string {
	requested, _ := sched.SplitRef(q.ID)
	id := cmp.Or(requested, found)
	if requested == "" || s.IsTaskRange(requested) {
		return s.ArrayOf(id)
	}
	return id
}

// withDetail adds the facts that only the detail has.
func (w *Watcher) withDetail(ctx context.Context, s sched.Scheduler, job api.Job) api.Job {
	if job.Log != "" && s.Kind().JobsAreProcesses {
		return job
	}
	if err := w.host.turn.Lock(ctx); err != nil {
		return job
	}
	defer w.host.turn.Unlock()
	detail, err := s.Detail(ctx, w.host.sh, job.Ref())
	if err != nil {
		if !errors.Is(err, sched.ErrNoJob) {
			w.host.Log.Debug("no detail of a job", "job", job.ID, "err", err)
		}
		return job
	}
	detail.Hint = cmp.Or(detail.Hint, job.Hint)
	return detail
}

// choose returns the job that the query means.
func (q Query) choose(s sched.Scheduler, jobs []api.Job) (job api.Job, found bool, err error) {
	if q.ID != "" {
		job, found = sched.Pick(s, jobs, q.ID)
		return job, found, nil
	}
	var matching []api.Job
	for _, job := range jobs {
		// A job that has the name and is about to end is of no use.
		ending := job.State == api.JobCompleting && q.Tag == ""
		means := q.Name != "" && job.Name == q.Name
		if q.Tag != "" {
			means = sched.HasTag(job, q.Tag) || job.ID == q.Tag
		}
		if means && !job.State.Ended() && !ending {
			matching = append(matching, job)
		}
	}
	if len(matching) == 0 {
		return api.Job{}, false, nil
	}
	matching = onePerArray(s, matching)
	slices.SortFunc(matching, func(a, b api.Job) int {
		return cmp.Or(sched.CompareReadiness(a, b), b.Submitted.Compare(a.Submitted), sched.CompareIDs(b.ID, a.ID))
	})
	job = matching[0]
	if len(matching) > 1 && q.Tag == "" {
		if matching[1].State == api.JobRunning {
			running := slices.DeleteFunc(matching, func(j api.Job) bool { return j.State != api.JobRunning })
			return api.Job{}, false, &AmbiguousError{Name: q.Name, Jobs: running}
		}
		job.Hint = cmp.Or(job.Hint, fmt.Sprintf("the newest of %d such jobs", len(matching)))
	}
	return job, true, nil
}

// onePerArray replaces the tasks of each array by the one that represents it.
func onePerArray(s sched.Scheduler, jobs []api.Job) []api.Job {
	var kept []api.Job
	seen := map[string]bool{}
	for _, job := range jobs {
		whole := api.Job{ID: s.ArrayOf(job.ID), Cluster: job.Cluster}.Ref()
		if seen[whole] {
			continue
		}
		seen[whole] = true
		job, _ = sched.Pick(s, jobs, whole)
		kept = append(kept, job)
	}
	return kept
}

// AmbiguousError says that several jobs with the name run, so the user must choose.
type AmbiguousError struct {
	Name string
	Jobs []api.Job // the running ones, newest first
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	list := make([]string, len(e.Jobs))
	for i, job := range e.Jobs {
		list[i] = job.Ref()
		if job.Node != "" {
			list[i] += " on " + job.Node
		}
	}
	return fmt.Sprintf("%d jobs called %q are running: %s", len(list), e.Name, strings.Join(list, ", "))
}

// Submitted is a job that tunctl has submitted, from this computer or another.
type Submitted struct {
	Tag string
	// Session is the name of its session there; "" if it has none.
	Session string
	// Computer is the name of the computer; "" if an older tunctl submitted it.
	Computer string
	// Job is, while a job is only looked for, the number in the answer of its submit command.
	Job api.Job
}

// submittedText prints what the submit scripts of a session's tags wrote: session and computer, then the
// scheduler's answer.
const submittedText = `cd @ROOT@ 2>/dev/null || exit 0
for tunctl_i in */tunctl.session; do
	test -O "$tunctl_i" && IFS= read -r tunctl_name <"$tunctl_i" || continue
	case $tunctl_name in @SESSION@) ;; *) continue ;; esac
	tunctl_dir=${tunctl_i%/*}
	printf '\n%s %s\n' @MARK@ "$tunctl_dir"
	head -n 2 "$tunctl_i"
	printf '\n%s %s\n' @MARK@ "$tunctl_dir/exit"
	test ! -f "$tunctl_dir/tunctl.exit" || head -c 100 "$tunctl_dir/tunctl.exit"
	printf '\n%s %s\n' @MARK@ "$tunctl_dir/out"
	test ! -f "$tunctl_dir/tunctl.out" || head -c 4096 "$tunctl_dir/tunctl.out"
done
exit 0`

// Submitted lists the user's jobs that wait or run and that tunctl has submitted for a session, or with ""
// for any: those whose folders are on the host, joined with the scheduler's list. The scheduler is asked
// only if there is a folder that is wanted; nil wants each. The one closest to running is the first.
func (w *Watcher) Submitted(ctx context.Context, session string, wanted func(Submitted) bool) ([]Submitted, error) {
	all, err := w.submittedTags(ctx, session)
	if wanted != nil {
		all = slices.DeleteFunc(all, func(x Submitted) bool { return !wanted(x) })
	}
	if err != nil || len(all) == 0 {
		return nil, err
	}
	jobs, err := w.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	s, err := w.host.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(x Submitted) bool { return x.Job.ID == "" }) { // an answer was lost: only the script tells of which job
		for i, job := range jobs {
			if job.Script == "" && !slices.ContainsFunc(all, func(x Submitted) bool { return x.Job.ID == job.ID }) {
				jobs[i] = w.withDetail(ctx, s, job)
			}
		}
	}
	var found []Submitted
	for _, x := range all {
		q := Query{Tag: x.Tag}
		job, ok, _ := q.choose(s, jobs)
		if !ok && x.Job.ID != "" { // not each list tells the scripts; a cluster with the same home has other jobs of that number
			if job, ok = sched.Pick(s, jobs, x.Job.ID); ok {
				if job, ok, err = w.Detail(ctx, job.Ref()); err != nil {
					return nil, err // it may be another job that has the number now
				}
				ok = ok && (job.Script == "" || sched.HasTag(job, x.Tag))
			}
		}
		if ok && !job.State.Ended() {
			x.Job = s.AsRequested(job, s.ArrayOf(job.ID))
			found = append(found, x)
		}
	}
	slices.SortStableFunc(found, func(a, b Submitted) int { return sched.CompareReadiness(a.Job, b.Job) })
	return found, nil
}

// submittedTags reads the folders, and the ids in the answers of the submit commands.
func (w *Watcher) submittedTags(ctx context.Context, session string) (all []Submitted, err error) {
	s, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	mark, pattern := remote.NewMark(), "*"
	if session != "" {
		pattern = posixsh.Quote(session)
	}
	res, err := w.host.sh.InFolder(ctx, strings.NewReplacer("@ROOT@", w.host.sh.Folder(), "@MARK@", mark, "@SESSION@", pattern).Replace(submittedText))
	if err != nil {
		return nil, err
	}
	parts := sections(string(res.Stdout), mark)
	for _, tag := range slices.Sorted(maps.Keys(parts)) {
		if !sched.ValidTag.MatchString(tag) {
			continue
		}
		lines := strings.SplitN(parts[tag]+"\n\n", "\n", 3)
		exit, _ := strconv.Atoi(strings.TrimSpace(parts[tag+"/exit"])) // without one, the output has no id yet, or has it
		id, _ := s.ParseSubmit(remote.Result{Exit: exit, Stdout: []byte(parts[tag+"/out"])})
		all = append(all, Submitted{Tag: tag, Session: lines[0], Computer: lines[1], Job: api.Job{ID: id}})
	}
	return all, nil
}
