package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"tunctl/internal/posixsh"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// testScript passes the job's script to sbatch --test-only. Where a wrapper drops that option, the job
// is submitted. Should its id come back, in either form of sbatch's answer, it is cancelled at once,
// also if the connection is lost meanwhile: without a reader, a write ends a process by SIGPIPE, which
// must not happen between the submission and its end. A file in our folder then has the line about it:
// the next test finds it there, and tests nothing, so that a lost answer is told later.
//
// Clusters may share a home, so the file has the name of the login nodes, without the number of
// this one.
const testScript = `tunctl_file=@FILE@.$(uname -n | tr -d 0-9)
if test -O "$tunctl_file" && test -s "$tunctl_file"; then cat "$tunctl_file"; exit; fi
trap '' HUP PIPE
cd @WORKDIR@ || exit
set -- @ARGS@
out=$( (trap - PIPE; @PRINT@) | limit sbatch --test-only --parsable "$@"); status=$?
set -- "$({
	printf '%s\n' "$out" | sed -n 's/^\([0-9][0-9]*\)\(;.*\)\{0,1\}$/\1\2/p'
	printf '%s\n' "$out" | sed -n 's/^Submitted batch job \([0-9][0-9]*\) on cluster \([^ ]*\).*$/\1;\2/p; s/^Submitted batch job \([0-9][0-9]*\).*$/\1/p'
} | tail -n 1)"
if test -n "$1"; then
	case $1 in *\;*) limit scancel -M "${1#*;}" "${1%%;*}" ;; *) limit scancel "$1" ;; esac
	set -- "@MARK@ $1 $?"
	(umask 077; mkdir -p "${tunctl_file%/*}"; test -O "${tunctl_file%/*}" && printf '%s\n' "$1" >"$tunctl_file")
	printf '\n%s\n' "$1"
fi
printf '%s\n' "$out"
exit $status`

// submittedMark begins the line about a job that a test submitted, and the name of the file that
// has it.
const submittedMark = "tunctl.submitted"

var (
	submittedLine = regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(submittedMark) + ` (\d[\w.;-]*) (\d+)$`)
	// startsAt is what sbatch --test-only writes to standard error.
	startsAt = regexp.MustCompile(`(?m)^(?:\S+: )?Job \d+ to start at (\S+)`)
)

// TestStart has sbatch test the job.
func (scheduler) TestStart(ctx context.Context, sh *remote.Shell, t sched.Trial) (sched.Start, error) {
	res, err := sh.Login(ctx, prelude+strings.NewReplacer(
		"@FILE@", sh.Folder()+"/"+submittedMark,
		"@WORKDIR@", posixsh.QuotePath(cmp.Or(t.Workdir, "~")),
		"@ARGS@", posixsh.Join(t.Args),
		"@PRINT@", t.PrintScript,
		"@MARK@", submittedMark,
	).Replace(testScript))
	if err != nil {
		return sched.Start{}, err
	}
	if m := submittedLine.FindSubmatch(res.Stdout); m != nil {
		return sched.Start{Submitted: string(m[1]), Cancelled: string(m[2]) == "0"}, nil
	}
	if res.Exit != 0 {
		if err := problem("sbatch", res); errors.Is(err, remote.ErrNoAnswer) {
			return sched.Start{}, err
		}
		return sched.Start{}, sched.RefusalError(res, refusals)
	}
	m := startsAt.FindSubmatch(res.Stderr)
	if m == nil {
		return sched.Start{Words: fmt.Sprintf("sbatch --test-only does not tell: %q", sched.LastErrorLine(res))}, nil
	}
	return sched.Start{At: sched.ParseTime(string(m[1]))}, nil
}
