package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
)

// errNoJob means that the scheduler answered and knows no such job (any more).
var errNoJob = errors.New("the scheduler does not know this job")

// scheduler is what every scheduler must be able to do. To add one, fill this interface in
// files of its name, and add its schedulerKind to schedulerKinds. What only some schedulers
// can do is in the small interfaces below.
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
	// asRequested returns job under the id that it was requested by. The task of an array
	// that was requested as a whole keeps its number in api.Job.Task.
	asRequested(job api.Job, id string) api.Job
}

// schedulerKind says how a scheduler is made, and how it is recognized on a host.
type schedulerKind struct {
	name string
	make func() scheduler
	// installed is the sh command that succeeds where the scheduler's programs are on the
	// PATH; it may use the function has. responds is the one that succeeds when its server
	// responds.
	installed, responds string
	// nodeNames is the sh text that prints the other names of the node "$n".
	nodeNames string
}

// schedulerKinds are all schedulers. Of several on one host, the first that responds is
// the one. The last is for hosts that have none.
var schedulerKinds = []schedulerKind{slurmKind, pbsKind, plainKind}

func schedulerNamed(name string) (scheduler, error) {
	var names []string
	for _, k := range schedulerKinds {
		if k.name == name {
			return k.make(), nil
		}
		names = append(names, strconv.Quote(k.name))
	}
	last := len(names) - 1
	return nil, fmt.Errorf("unknown scheduler %q: expected %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

// queryPrelude precedes every query. Words and times do not depend on the person's
// settings, and a time limit on the host keeps a hung server from collecting hanging
// clients on the login node. It is not for commands that submit, whose environment becomes
// the job's.
const queryPrelude = `export LC_ALL=C TZ=UTC0
limit() { if command -v timeout >/dev/null 2>&1; then timeout 25 "$@"; else command "$@"; fi; }
`

// account is who we are on the host.
type account struct {
	scheduler, user, node string
}

// accountScript finds out, by what is on the login shell's PATH. Where several schedulers
// are installed, as after a migration or with wrappers, it takes the first that responds,
// or "" if none does.
func accountScript() string {
	var installed, responds string
	for _, k := range schedulerKinds {
		if k.installed != "" {
			installed += "if " + k.installed + `; then set -- "$@" ` + k.name + "; fi\n"
			responds += "\t" + k.name + ") answers " + k.responds + " ;;\n"
		}
	}
	return `has() { for p; do command -v "$p" >/dev/null 2>&1 || return 1; done; }
answers() { if has timeout; then timeout 10 "$@"; else "$@"; fi >/dev/null 2>&1 </dev/null; }
set --
` + installed + `s=
case $# in
0) s=` + None + ` ;;
1) s=$1 ;;
*) for k; do
	case $k in
` + responds + `	esac && s=$k && break
done ;;
esac
printf '%s\n' "$s" "$(id -un)" "$(uname -n)"`
}

func findAccount(ctx context.Context, sh *shell) (account, error) {
	res, err := sh.login(ctx, accountScript())
	if err != nil {
		return account{}, err
	}
	lines := strings.Split(string(res.Stdout), "\n")
	if len(lines) < 3 {
		return account{}, fmt.Errorf("cannot read the user name on the host: unexpected output %q", clip(string(res.Stdout), 200))
	}
	return account{scheduler: lines[0], user: lines[1], node: lines[2]}, nil
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
	// explainGone fills in the state and the hint of a job that the scheduler no longer
	// knows, if it has more to say than that; ran reports whether it was seen running.
	explainGone(job *api.Job, ran bool) bool
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

// processOwner is a scheduler that can tell whose a process on a node is.
type processOwner interface {
	// taskRef names the task of an array that the job is about.
	taskRef(job api.Job) string
	// processes returns the processes of a running job, as far as the scheduler tells.
	processes(ctx context.Context, sh *shell, ref string) ([]int, error)
	// jobsOfProcess returns the ids under which a process was started, from its
	// environment; empty ones are not known.
	jobsOfProcess(ctx context.Context, sh *shell, node string, pid int) ([]string, error)
}

// splitRef takes a reference apart. Whatever else there is a semicolon in is an id.
func splitRef(ref string) (id, cluster string) {
	if m := clusterRef.FindStringSubmatch(ref); m != nil {
		return m[1], m[2]
	}
	return ref, ""
}

var clusterRef = regexp.MustCompile(`^(\d[^;]*);([A-Za-z0-9_][A-Za-z0-9_.-]*)$`)

// clockSpan writes a limit as both schedulers read it: hours count on past a day.
// Slurm takes whole minutes only and rounds up.
func clockSpan(d time.Duration) string {
	s := int((d + time.Second - 1) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
