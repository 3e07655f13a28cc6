package gridengine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// account is what qacct prints about one run of a job or task, by label.
type account map[string]string

// accountLabels are the labels that are read; they are a quarter of an answer.
const accountLabels = "====*|qname|hostname|owner|jobname|jobnumber|taskid|pe_taskid|qsub_time|start_time|end_time|failed|exit_status|deleted_by|ru_wallclock|maxvmem|category"

// qacctFilter limits an answer to the newest 500 records of these labels.
const qacctFilter = " | grep -E '^(" + accountLabels + ")' | tail -n 8000"

// ended finds an ended job in the accounting. If qacct fails, the server has still said that
// the job is gone.
func (g scheduler) ended(ctx context.Context, sh *remote.Shell, id string) (api.Job, error) {
	accounts, err := g.qacct(ctx, sh, "-j "+posixsh.Quote(g.ArrayOf(id)))
	if err != nil {
		return api.Job{}, err
	}
	job, ok := sched.Pick(g, lists.Map(accounts, account.job), id)
	if !ok {
		return api.Job{}, sched.ErrNoJob
	}
	return job, nil
}

// History reads the last week: qacct selects by when a job began.
func (g scheduler) History(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	accounts, err := g.qacct(ctx, sh, `-o "$(id -un)" -d 8 -j`)
	if errors.Is(err, sched.ErrNoJob) {
		return nil, nil
	}
	return lists.Map(accounts, account.job), err
}

// qacct reads the accounting, always all of it. Where that is not readable for people, how jobs
// end is not known. Where it is so long that it takes too much time, it is tried only once.
func (g scheduler) qacct(ctx context.Context, sh *remote.Shell, which string) ([]account, error) {
	if g.cache.slowAccounting {
		return nil, sched.ErrNoJob
	}
	res, err := sh.Login(ctx, remote.QueryPrelude+"out=$(limit qacct "+which+") || exit\n"+`printf '%s\n' "$out"`+qacctFilter)
	if err != nil {
		return nil, err
	}
	if res.Exit != 0 {
		g.cache.slowAccounting = res.Exit == 124
		return nil, sched.ErrNoJob
	}
	return parseQacct(string(res.Stdout)), nil
}

// parseQacct reads records. A job that was started again has one for each run: the last is
// kept.
func parseQacct(out string) []account {
	var all []account
	for line := range strings.Lines(out) {
		label, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.HasPrefix(label, "===") || label == "qname" && (len(all) == 0 || all[len(all)-1]["qname"] != ""):
			all = append(all, account{})
			fallthrough
		case len(all) > 0:
			if last := all[len(all)-1]; last[label] == "" && !strings.HasPrefix(label, "===") {
				last[label] = strings.TrimSpace(value)
			}
		}
	}
	var kept []account
	for _, a := range all {
		if part := a["pe_taskid"]; a["jobnumber"] == "" || part != "" && part != "NONE" && part != "undefined" {
			continue // a part of a parallel job
		}
		kept = slices.DeleteFunc(kept, func(earlier account) bool { return earlier.id() == a.id() })
		kept = append(kept, a)
	}
	return kept
}

func (a account) id() string { return jobID(a["jobnumber"], a["taskid"]) }

func (a account) job() api.Job {
	job := api.Job{
		ID: a.id(), Name: a["jobname"], Queue: a["qname"], Node: a["hostname"],
		Submitted: sched.ParseTime(a["qsub_time"]), Start: sched.ParseTime(a["start_time"]), End: sched.ParseTime(a["end_time"]),
	}
	if task := a["taskid"]; task != "undefined" {
		job.Task = task
	}
	a.setEnd(&job)
	return job
}

// The numbers of "failed" that decide how a job ended; sge_status(5) has them all.
const (
	endedItself      = 0   // the job ended by itself
	endedLostNode    = 19  // before writing exit_status
	endedRescheduled = 25  // to run again
	endedMigrated    = 24  // to run again
	endedByLimit     = 37  // the server ended it at h_rt, h_cpu or h_vmem
	endedBySignal    = 100 // the job ended by a signal
)

// setEnd reads why Grid Engine says that a job failed, and its exit status. Numbers up to 36
// are about the time before the job's own commands ran.
func (a account) setEnd(job *api.Job) {
	number, words, _ := strings.Cut(a["failed"], ":")
	failed, _ := strconv.Atoi(strings.TrimSpace(number))
	words = strings.TrimSpace(words)
	first, _, _ := strings.Cut(a["exit_status"], " ")
	exit, err := strconv.Atoi(first)
	if err == nil && (failed == endedItself || failed >= endedByLimit) {
		job.Exit = &exit
	}
	if failed != endedItself && failed != endedBySignal {
		job.Reason = words
	}
	switch {
	case failed == endedItself && exit == 0:
		job.State = api.JobFinished
	case failed == endedItself:
		job.State, job.Hint = api.JobFailed, sched.ExitHint(exit)
	case failed == endedByLimit:
		a.setLimit(job)
	case failed == endedBySignal:
		a.setSignal(job, exit)
	case failed == endedLostNode:
		job.State, job.Hint = api.JobNodeFail, "the node was lost while the job ran"
	case failed == endedRescheduled || failed == endedMigrated:
		job.State, job.Hint = api.JobCancelled, "the job was deleted while it waited to run again"
	case job.Start.IsZero():
		job.State, job.Hint = api.JobNeverRan, "Grid Engine could not start the job: "+words
	default:
		job.State, job.Hint = api.JobFailed, "Grid Engine reports a failure: "+words
	}
}

// setLimit finds out which of the limits it was.
func (a account) setLimit(job *api.Job) {
	job.State, job.Hint = api.JobTimeout, "the time limit (h_rt) was reached"
	if limit := a.requested("h_rt"); limit != "" && a.ran() >= sched.ParseClockTime(limit) {
		return
	}
	switch {
	case a.requested("h_cpu") != "":
		job.Hint = "a limit of the job (h_rt, h_cpu or h_vmem) was reached"
	case a.requested("h_vmem") != "":
		job.State, job.Hint = api.JobOOM, "the job used more memory than it asked for: ask for more with -l h_vmem"
		job.Memory = sched.ParseSize(a.requested("h_vmem"))
	}
}

// setSignal: the record does not tell a deletion from a job that killed itself.
func (a account) setSignal(job *api.Job, exit int) {
	signal := exit - 128
	switch by := a["deleted_by"]; {
	case signal == 10 && a.requested("s_rt") != "": // SIGUSR1
		job.State, job.Hint = api.JobTimeout, "the time limit (s_rt) was reached"
	case by != "" && by != "NONE" && by != "undefined":
		job.State, job.Hint = api.JobCancelled, "deleted by "+by
	case signal == 9 || signal == 15:
		job.State, job.Hint = api.JobCancelled, fmt.Sprintf("the job was killed by signal %d: it was deleted with qdel, or used more memory than the node allows", signal)
	default:
		job.State, job.Hint = api.JobFailed, sched.ExitHint(exit)
	}
}

// ran is how long the job ran.
func (a account) ran() time.Duration {
	took, _ := time.ParseDuration(strings.TrimSuffix(a["ru_wallclock"], "s") + "s")
	return took
}

// requested is what the job asked for of a resource.
func (a account) requested(resource string) string {
	m := regexp.MustCompile(`[ ,]` + resource + `=([^, ]+)`).FindStringSubmatch(a["category"])
	if m == nil {
		return ""
	}
	return m[1]
}
