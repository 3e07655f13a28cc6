package jobwatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"tunctl/internal/api"
)

// maxListed bounds a list of ended jobs.
const maxListed = "500"

// recently is how far back ended jobs are listed.
const recently = 24 * time.Hour

// Recent returns the person's jobs that ended within the last day, oldest first, as
// far as the host remembers them: Slurm without accounting knows the last minutes.
func (w *Watcher) Recent(ctx context.Context) ([]api.Job, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	jobs, err := s.recorded(ctx, w.sh)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool {
		return !j.State.Ended() || !j.End.IsZero() && time.Since(j.End) > recently
	})
	slices.SortFunc(jobs, func(a, b api.Job) int { return compareIDs(a.ID, b.ID) })
	return jobs, nil
}

// recorded asks the accounting, and where there is none the controller, which
// remembers ended jobs for a few minutes.
func (s slurm) recorded(ctx context.Context, sh *shell) ([]api.Job, error) {
	jobs, err := s.sacct(ctx, sh, "")
	if errors.Is(err, errNoAccounting) {
		return s.squeue(ctx, sh, "--me -t all")
	}
	for _, cluster := range s.clusters.all() {
		if err != nil {
			break
		}
		var others []api.Job
		if others, err = s.sacct(ctx, sh, cluster); errors.Is(err, errNoAccounting) {
			err = nil
		}
		jobs = slices.DeleteFunc(jobs, func(j api.Job) bool { // the host's own, by its name
			return slices.ContainsFunc(others, func(o api.Job) bool { return o.ID == j.ID && o.Submitted.Equal(j.Submitted) })
		})
		jobs = append(jobs, others...)
	}
	return jobs, err
}

// errNoAccounting means that sacct does not work.
var errNoAccounting = errors.New("sacct does not respond")

// sacct returns the person's jobs of the last day on one cluster.
func (slurm) sacct(ctx context.Context, sh *shell, cluster string) ([]api.Job, error) {
	res, err := sh.login(ctx, quiet+"out=$(limit sacct "+onCluster(cluster)+"-X -n -P -S now-1days -o "+sacctFields+") || exit\n"+
		`printf '%s\n' "$out" | tail -n `+maxListed)
	if err != nil {
		return nil, err
	}
	if res.Exit != 0 {
		return nil, errNoAccounting
	}
	jobs := parseSacct(string(res.Stdout))
	for i := range jobs {
		jobs[i].Cluster = cluster
	}
	return jobs, nil
}

// recorded asks which jobs changed within the last day, and for the table of all that
// the server keeps, which has their ends but not the times of them. Where qselect
// cannot tell, as with Torque, the newest of the table will do.
func (p pbs) recorded(ctx context.Context, sh *shell) ([]api.Job, error) {
	option := "-x"
	if p.lacksHistory() {
		option = ""
	}
	res, err := sh.login(ctx, quiet+qstatTable+"out=$(table "+option+") || exit\n"+`first=$(($(printf '%s\n' "$out" | wc -l) - `+maxTable+`))
printf '%s\n' "$out" | awk -v first="$first" 'NR <= 10 || NR > first' # the headings, and the newest`)
	if err != nil {
		return nil, err
	}
	if err := pbsProblem("qstat", res); err != nil {
		return nil, err
	}
	jobs := parseTable(string(res.Stdout), time.Now().UTC())
	slices.SortFunc(jobs, func(a, b api.Job) int { return compareIDs(a.ID, b.ID) })
	since := time.Now().UTC().Add(-recently)
	ids, err := p.qselect(ctx, sh, option+" -tm.ge."+since.Format("200601021504"))
	if err != nil {
		return jobs[max(0, len(jobs)-newestEnded):], nil //nolint:nilerr // the table is an answer too
	}
	return slices.DeleteFunc(jobs, func(j api.Job) bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return p.is(api.Job{ID: id}, j.ID) })
	}), nil
}

const (
	maxTable    = "2000" // lines of a table of ended jobs
	newestEnded = 50     // of which so many are shown where their age is not known
)

func (p plain) recorded(ctx context.Context, sh *shell) ([]api.Job, error) {
	return p.show(ctx, sh, `for d in "$HOME"/`+tagRoot+`/*/; do tunctl_show "${d%/}"; done`)
}
