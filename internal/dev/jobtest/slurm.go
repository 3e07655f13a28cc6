package jobtest

import (
	"strings"
	"testing"
	"time"

	"tunctl/jobwatch/remote"
)

// NewSlurm returns a machine with a Slurm of a few lines: every accepted job is a line
// "id script" in ~/submitted, and ~/sbatch changes what sbatch does.
func NewSlurm(t *testing.T) *Machine {
	t.Helper()
	m := NewMachine(t)
	m.Program(t, "sbatch", `for script; do :; done
printf '%s\n' "$*" >>"$HOME/sbatch.words"
pwd >>"$HOME/sbatch.folder"
if test -f "$HOME/sbatch"; then . "$HOME/sbatch"; fi
accept() { id=$(mktemp -d "$HOME/id.XXXXXX"); id=$(ls -di "$id" | tr -cd 0-9); printf '%s %s\n' "$id" "$script" >>"$HOME/submitted"; }
if command -v before >/dev/null; then before; fi
accept
echo "a word from the site's submit filter"
echo "$id;practice"`)
	m.Program(t, "squeue", `if test -f "$HOME/squeue.fails"; then cat "$HOME/squeue.fails" >&2; exit 1; fi
touch "$HOME/submitted"
while read -r id script; do
	printf '%s\037' "$id" "$id" N/A PENDING normal "" 1794702650 N/A N/A 0 Resources "$script" "$HOME/slurm-%j.out" 1 u n/a north
	printf 'my|job "x"\036\n'
done <"$HOME/submitted"`)
	m.Program(t, "scontrol", `for id; do :; done
grep "^$id " "$HOME/submitted" >/dev/null 2>&1 || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
script=$(sed -n "s/^$id //p" "$HOME/submitted")
echo "JobId=$id JobName=my|job UserId=u(1) GroupId=g(1) MCS_label=N/A JobState=PENDING Reason=Resources Dependency=(null) Restarts=0 ExitCode=0:0 SubmitTime=1794702650 StartTime=Unknown EndTime=Unknown Partition=normal NodeList= Command=$script WorkDir=$HOME StdErr=$HOME/slurm-$id.out StdIn=/dev/null StdOut=$HOME/slurm-$id.out Power="`)
	m.Program(t, "sacct", `echo "Slurm accounting storage is disabled" >&2; exit 1`)
	m.Program(t, "scancel", `printf '%s\n' "$1" >>"$HOME/cancelled"`)
	return m
}

// Submitted are the jobs that the fake Slurm accepted.
func Submitted(t *testing.T, m *Machine) []string {
	t.Helper()
	res, err := m.Run(t.Context(), `cat submitted 2>/dev/null || true`, nil)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(res.Stdout)), " ", "@"))
}

// QuickLimits are limits for tests.
func QuickLimits() remote.Limits {
	l := remote.PracticeLimits()
	l.QueryMin = 10 * time.Millisecond
	return l
}
