package jobwatch

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
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
	Job      api.Job
}

// submittedText prints what the submit scripts of all tags wrote: session and computer, then the
// scheduler's answer.
const submittedText = `cd @ROOT@ 2>/dev/null || exit 0
for tunctl_i in */tunctl.session; do
	test -O "$tunctl_i" || continue
	tunctl_dir=${tunctl_i%/*}
	printf '\n%s %s\n' @MARK@ "$tunctl_dir"
	head -n 2 "$tunctl_i"
	printf '\n%s %s\n' @MARK@ "$tunctl_dir/exit"
	test ! -f "$tunctl_dir/tunctl.exit" || head -c 100 "$tunctl_dir/tunctl.exit"
	printf '\n%s %s\n' @MARK@ "$tunctl_dir/out"
	test ! -f "$tunctl_dir/tunctl.out" || head -c 4096 "$tunctl_dir/tunctl.out"
done
exit 0`

// Submitted lists the person's jobs that wait or run and that tunctl has submitted: those whose
// folders are on the host, joined with the scheduler's list.
func (w *Watcher) Submitted(ctx context.Context) ([]Submitted, error) {
	all, ids, err := w.submittedTags(ctx)
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
	if slices.Contains(ids, "") { // an answer was lost: only the script tells of which job
		for i, job := range jobs {
			if job.Script == "" && !slices.Contains(ids, job.ID) {
				jobs[i] = w.withDetail(ctx, s, job)
			}
		}
	}
	var found []Submitted
	for i, x := range all {
		q := Query{Tag: x.Tag}
		job, ok, _ := q.choose(s, jobs)
		if !ok && ids[i] != "" { // not each list tells the scripts; a cluster with the same home has other jobs of that number
			if job, ok = sched.Pick(s, jobs, ids[i]); ok {
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
	return found, nil
}

// submittedTags reads the folders, and the ids in the answers of the submit commands.
func (w *Watcher) submittedTags(ctx context.Context) (all []Submitted, ids []string, err error) {
	s, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	mark := remote.NewMark()
	res, err := w.host.sh.InFolder(ctx, strings.NewReplacer("@ROOT@", w.host.sh.Folder(), "@MARK@", mark).Replace(submittedText))
	if err != nil {
		return nil, nil, err
	}
	parts := sections(string(res.Stdout), mark)
	for _, tag := range slices.Sorted(maps.Keys(parts)) {
		if !sched.ValidTag.MatchString(tag) {
			continue
		}
		lines := strings.SplitN(parts[tag]+"\n\n", "\n", 3)
		all = append(all, Submitted{Tag: tag, Session: lines[0], Computer: lines[1]})
		exit, _ := strconv.Atoi(strings.TrimSpace(parts[tag+"/exit"])) // without one, the output has no id yet, or has it
		id, _ := s.ParseSubmit(remote.Result{Exit: exit, Stdout: []byte(parts[tag+"/out"])})
		ids = append(ids, id)
	}
	return all, ids, nil
}
