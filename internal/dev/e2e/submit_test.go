package e2e

import (
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// killsTheWait kills the shell on login1 that waits for sbatch's answer, as a watchdog does.
const killsTheWait = `p=$$
chain=
while p=$(ps -o ppid= -p "$p" | tr -d ' ') && test "$p" -gt 1; do
	case $(ps -o comm= -p "$p") in *sshd*) break ;; esac
	chain="$p $chain"
done
set -- "$chain" "$@"
for p in $1; do last=$second; second=$p; test -z "$last" || break; done
case " $* " in *" --test-only "*) ;; *) kill -9 "$second" ;; esac
shift
exec "$SBATCH" "$@"
`

func TestRefusalOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newLaptop(t, "[session.jupyter]\nhost = \"lab-login\"\nsubmit = \"~/jupyter.sh\"\nlocal = PORT\n")
	for name, sbatch := range map[string]string{
		"the id and status 1":        "\"$SBATCH\" \"$@\"\nexit 1\n",
		"status 1 after the job":     "\"$SBATCH\" \"$@\" >/dev/null\necho 'sbatch: error: cannot write the log of jobs' >&2\nexit 1\n",
		"the waiting shell is ended": killsTheWait,
	} {
		l.lab.WrapSbatch(sbatch)
		l.run("up", "jupyter", "--no-open")
		s := l.status()
		if s.State != api.SessionReady || s.Job == nil {
			t.Fatalf("%s: %+v", name, s)
		}
		t.Logf("%s: ready with job %s", name, s.Job.ID)
		l.run("down", "jupyter", "--cancel")
		l.lab.WaitJob(s.Job.ID, "CANCELLED")
	}
}
