package jobwatch

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

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
