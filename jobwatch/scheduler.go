package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"tunctl/internal/api"
)

// errNoJob means that the scheduler answered and knows no such job (any more).
var errNoJob = errors.New("the scheduler does not know this job")

// scheduler is what one kind of scheduler must be able to do. A new kind is one new
// file with an implementation, and a line each in schedulerNamed and whoami.
type scheduler interface {
	name() string
	// list returns the person's jobs that wait or run, in one query.
	list(ctx context.Context, sh *shell) ([]api.Job, error)
	// terse reports whether list tells less of a job's files than detail.
	terse() bool
	// detail returns all there is to know about one job, also an ended one.
	detail(ctx context.Context, sh *shell, id string) (api.Job, error)
	// recorded returns the person's jobs of the last day or more that the host
	// remembers; those that wait or run may be among them.
	recorded(ctx context.Context, sh *shell) ([]api.Job, error)
	// tagged looks, also among ended jobs, for one submitted from the folder of tag.
	tagged(ctx context.Context, sh *shell, tag string) (api.Job, error)
	cancel(ctx context.Context, sh *shell, id string) error
	// extend sets a job's time limit, counted from its start.
	extend(ctx context.Context, sh *shell, id string, limit time.Duration) error
	// submit returns the sh text that hands the file "$tunctl_script" to the scheduler from
	// the current folder and prints the new job's id. Its words are "$@".
	submit() string
	// verdict reads what that text printed, and its exit status.
	verdict(a answer) (id string, err error)
	// is reports whether job is the one that a person or we call id, or part of it.
	is(job api.Job, id string) bool
}

func schedulerNamed(name string) (scheduler, error) {
	switch name {
	case Slurm:
		return newSlurm(), nil
	case PBS:
		return newPBS(), nil
	case None:
		return plain{}, nil
	}
	return nil, fmt.Errorf("unknown scheduler %q: expected %q, %q or %q", name, Slurm, PBS, None)
}

// account is who we are on the host.
type account struct {
	scheduler, user, node string
}

// selective is a scheduler that is asked about some jobs rather than about all of them:
// its list is short, and every job that it is asked about costs it a connection.
type selective interface {
	scheduler
	// some returns all there is to know about a few jobs. One that is not among them
	// is gone.
	some(ctx context.Context, sh *shell, ids []string) ([]api.Job, error)
	// named returns those of a list that are called name.
	named(ctx context.Context, sh *shell, jobs []api.Job, name string) ([]api.Job, error)
	// lacksHistory reports whether the scheduler knows nothing of jobs that have ended.
	lacksHistory() bool
}

// whoami finds out, by what is on the login shell's PATH. Where there are the programs
// of both, as after a migration or with wrappers, the one that answers is taken: a
// scheduler is "" when neither does. Grid Engine has a qstat too, but sets SGE_ROOT and
// comes without qselect's PBS options.
const whoami = `has() { for p; do command -v "$p" >/dev/null 2>&1 || return 1; done; }
answers() { if has timeout; then timeout 10 "$@"; else "$@"; fi >/dev/null 2>&1 </dev/null; }
s= slurm= pbs=
if has sbatch squeue; then slurm=slurm; fi
if has qsub qselect qstat && test -z "$SGE_ROOT"; then pbs=pbs; fi
case $slurm$pbs in
slurmpbs) if answers squeue --me -h; then s=slurm; elif answers qselect -u "$(id -un)"; then s=pbs; fi ;;
"") s=none ;;
*) s=$slurm$pbs ;;
esac
printf '%s\n' "$s" "$(id -un)" "$(uname -n)"`

func findAccount(ctx context.Context, sh *shell) (account, error) {
	res, err := sh.login(ctx, whoami)
	if err != nil {
		return account{}, err
	}
	lines := strings.Split(string(res.Stdout), "\n")
	if len(lines) < 3 {
		return account{}, fmt.Errorf("cannot read the user name on the host: unexpected output %q", clip(string(res.Stdout), 200))
	}
	return account{scheduler: lines[0], user: lines[1], node: lines[2]}, nil
}

// clustered is a scheduler that may have several clusters.
type clustered interface {
	// include has the clusters queried that words for the submit command name. It
	// reports whether there is a new one among them.
	include(words []string) bool
}

// arrays is a scheduler whose arrays of jobs are followed as a whole, since their tasks
// come and go.
type arrays interface {
	// whole is the array that a job belongs to, or the job itself.
	whole(id string) string
	// several reports whether an id is of several tasks that wait together.
	several(id string) bool
}

// stepper is a scheduler that can show the newest output of a job's running steps.
type stepper interface {
	stepOutput(ctx context.Context, sh *shell, id string) ([]byte, error)
}

// processLister is a scheduler that can tell the processes of a running job.
type processLister interface {
	processes(ctx context.Context, sh *shell, ref string) ([]int, error)
}

// splitRef takes a reference apart. Whatever else there is a semicolon in is an id.
func splitRef(ref string) (id, cluster string) {
	if m := clusterRef.FindStringSubmatch(ref); m != nil {
		return m[1], m[2]
	}
	return ref, ""
}

var clusterRef = regexp.MustCompile(`^(\d[^;]*);([A-Za-z0-9_][A-Za-z0-9_.-]*)$`)
