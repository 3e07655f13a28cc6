// Package plain is the dialect of a host without a scheduler: a job is a process. Only [Kind] is for
// others.
package plain

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// scheduler is a host without a scheduler: a job is a process in its own session that survives
// the logout, with its log and its pid in the tag's folder. Its id is its tag.
type scheduler struct{ sched.Basic }

// Kind is that of a host without a scheduler.
var Kind = sched.Kind{
	Name:             "none",
	New:              func() sched.Scheduler { return scheduler{} },
	JobsAreProcesses: true,
	Submit:           submitScript,
}

func (scheduler) Kind() *sched.Kind { return &Kind }

// stampFunction prints when a process started, to recognize another process with the same pid.
const stampFunction = `tunctl_stamp() {
	if test -r "/proc/$1/stat"; then sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20
	else LC_ALL=C TZ=UTC0 ps -o lstart= -p "$1" | tr -s ' ' '_'; fi
}
`

// showFunction prints one record for each tag's folder with a process: the folder, the content
// of its pid file, whether the process is alive, its exit status, and its script.
const showFunction = stampFunction + `tunctl_show() {
	test -f "$1/tunctl.pid" || return 0
	read -r pid stamp since node <"$1/tunctl.pid" || return 0
	alive=no
	if test "$node" != "$(uname -n)"; then alive=elsewhere
	elif kill -0 "$pid" 2>/dev/null && test "$(tunctl_stamp "$pid")" = "$stamp"; then alive=yes; fi
	status=; ended=; cancelled=; script=
	test ! -f "$1/tunctl.status" || read -r status ended <"$1/tunctl.status"
	test ! -f "$1/tunctl.cancelled" || cancelled=yes
	for f in "$1"/*; do case $f in */tunctl.*) ;; *) script=$f; break;; esac; done
	printf '%s\037' "$1" "$pid" "$since" "$node" "$alive" "$status" "$ended" "$cancelled" "$script"
	printf '\036\n'
}
`

func (p scheduler) List(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	jobs, err := p.History(ctx, sh)
	return slices.DeleteFunc(jobs, func(j api.Job) bool { return j.State.Ended() }), err
}

func (p scheduler) Detail(ctx context.Context, sh *remote.Shell, id string) (api.Job, error) {
	jobs, err := p.readFolders(ctx, sh, "tunctl_show "+sched.TagFolder(sh, id))
	if err != nil {
		return api.Job{}, err
	}
	if len(jobs) == 0 {
		return api.Job{}, sched.ErrNoJob
	}
	return jobs[0], nil
}

func (p scheduler) FindTagged(ctx context.Context, sh *remote.Shell, tag string) (api.Job, error) {
	return p.Detail(ctx, sh, tag)
}

func (p scheduler) History(ctx context.Context, sh *remote.Shell) ([]api.Job, error) {
	return p.readFolders(ctx, sh, "for d in "+sh.Folder()+`/*/; do tunctl_show "${d%/}"; done`)
}

func (scheduler) readFolders(ctx context.Context, sh *remote.Shell, which string) ([]api.Job, error) {
	res, err := sh.InFolder(ctx, showFunction+which)
	if err != nil {
		return nil, err
	}
	if res.Exit != 0 {
		return nil, sched.CommandError("sh", res.Exit, sched.LastErrorLine(res))
	}
	var jobs []api.Job
	for record := range strings.SplitSeq(string(res.Stdout), "\x1e\n") {
		if f := strings.Split(record, "\x1f"); len(f) == 10 {
			jobs = append(jobs, jobOf(f))
		}
	}
	return jobs, nil
}

func jobOf(f []string) api.Job {
	dir, since, node, alive, status, ended, cancelled, script := f[0], f[2], f[3], f[4], f[5], f[6], f[7], f[8]
	name := script[strings.LastIndexByte(script, '/')+1:]
	job := api.Job{
		ID:        dir[strings.LastIndexByte(dir, '/')+1:],
		Name:      strings.TrimSuffix(name, ".sh"),
		Node:      node,
		Submitted: sched.ParseTime(since),
		Start:     sched.ParseTime(since),
		Log:       dir + "/" + sched.OwnPrefix + "log",
		Script:    script,
	}
	code, err := strconv.Atoi(status)
	exited := err == nil
	if exited {
		job.Exit, job.End = &code, sched.ParseTime(ended)
	}
	switch {
	case !exited && alive == "yes":
		job.State = api.JobRunning
	case !exited && alive == "elsewhere":
		job.State = api.JobUnknown
		job.Hint = "started on " + node + ", which is not the machine we are logged in to"
	case cancelled != "":
		job.State = api.JobCancelled
	case !exited:
		job.State = api.JobNodeFail
		job.Hint = "the process is gone without a trace: the machine was restarted, or it was killed"
	case code == 0:
		job.State = api.JobFinished
	default:
		job.State = api.JobFailed
	}
	return job
}

// submitScript starts the script in its own session. A second process records how it ends:
// it ignores SIGTERM, which goes to the whole group, and so outlives the script.
const submitScript = stampFunction + `if ` + hasDirectives + ` "$tunctl_script"; then exit ` + hasDirectivesExit + `; fi
tunctl_keeper='
trap : TERM
"$@" >>"$tunctl_dir/tunctl.log" 2>&1 &
tunctl_child=$!
while :; do
	wait "$tunctl_child"; tunctl_status=$?
	kill -0 "$tunctl_child" 2>/dev/null || break
done
printf "%s %s\n" "$tunctl_status" "$(date +%s)" >"$tunctl_dir/tunctl.status.new"
mv "$tunctl_dir/tunctl.status.new" "$tunctl_dir/tunctl.status"'
case $(head -c 2 "$tunctl_script") in '#!') set -- "$tunctl_script" "$@";; *) set -- sh "$tunctl_script" "$@";; esac
tunctl_session=; if command -v setsid >/dev/null 2>&1; then tunctl_session=setsid; fi
tunctl_dir=$tunctl_dir $tunctl_session sh -c "$tunctl_keeper" sh "$@" </dev/null >/dev/null 2>&1 &
tunctl_pid=$!
printf '%s %s %s %s\n' "$tunctl_pid" "$(tunctl_stamp "$tunctl_pid")" "$(date +%s)" "$(uname -n)" >"$tunctl_dir/tunctl.pid.new"
mv "$tunctl_dir/tunctl.pid.new" "$tunctl_dir/tunctl.pid"
printf '%s\n' "${tunctl_dir##*/}"`

func (scheduler) ParseSubmit(res remote.Result) (string, error) {
	if tag := string(bytes.TrimSpace(res.Stdout)); sched.ValidTag.MatchString(tag) {
		return tag, nil
	}
	if strconv.Itoa(res.Exit) == hasDirectivesExit {
		return "", directivesError()
	}
	return "", sched.SubmitError(res, nil, nil)
}

// Cancel sends SIGTERM, and SIGKILL after ten seconds. The process has its own group, unless
// the host has no setsid; dash and busybox differ in the syntax of kill for a group.
func (scheduler) Cancel(ctx context.Context, sh *remote.Shell, id string) error {
	res, err := sh.InFolder(ctx, stampFunction+"d="+sched.TagFolder(sh, id)+`
read -r pid stamp since node <"$d/tunctl.pid" || exit 0
test "$node" = "$(uname -n)" || { printf 'the job runs on %s\n' "$node" >&2; exit 3; }
alive() { kill -0 "$pid" 2>/dev/null && test "$(tunctl_stamp "$pid")" = "$stamp"; }
send() { kill -s "$1" -- "-$pid" 2>/dev/null || kill -"$1" "-$pid" 2>/dev/null || kill -"$1" "$pid" 2>/dev/null; }
alive || exit 0
: >"$d/tunctl.cancelled"
send TERM
i=0
while alive && test $i -lt 100; do sleep 0.1 2>/dev/null || { sleep 1; i=$((i + 9)); }; i=$((i + 1)); done
alive && send KILL
exit 0`)
	if err != nil {
		return err
	}
	if res.Exit != 0 {
		return sched.CommandError("kill", res.Exit, sched.LastErrorLine(res))
	}
	return nil
}

// hasDirectives is the sh command that succeeds if a script has lines for a scheduler: such a script asks for
// what is not there, and may be meant for another host. The submission of one ends with hasDirectivesExit.
const (
	hasDirectives     = `grep -Eq '^#(SBATCH|PBS|BSUB|PJM|MSUB|OAR|COBALT|DSUB|FLUX:|\$ +-| *@ *(job_type|class|queue))'`
	hasDirectivesExit = "3"
)

func directivesError() error {
	return api.Errorf(api.CodeSubmit, "the script has lines for a scheduler, such as #SBATCH, and the host is used without one: nothing was started").
		WithHint("if the host has a scheduler, set its name as scheduler in the [host] section; to run the script on the host itself, remove these lines")
}

func (scheduler) TestStart(ctx context.Context, sh *remote.Shell, t sched.Trial) (sched.Start, error) {
	res, err := sh.Login(ctx, "cd "+t.Workdir+" && ("+t.PrintScript+") | "+hasDirectives)
	if err != nil {
		return sched.Start{}, err
	}
	if res.Exit == 0 {
		return sched.Start{}, directivesError()
	}
	return sched.Start{At: time.Now(), Words: "the host has no scheduler: the job starts at once"}, nil
}

func (scheduler) Extend(context.Context, *remote.Shell, string, time.Duration) error {
	return errors.New("a job without a scheduler has no time limit")
}
