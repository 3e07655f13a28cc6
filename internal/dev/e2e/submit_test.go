package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// submitsLate fails as after a timeout of the controller, which makes the job later.
const submitsLate = `case " $* " in *" --test-only "*) exec "$SBATCH" "$@" ;; esac
cat >"$HOME/late.sh"
(sleep 20; "$SBATCH" "$@" <"$HOME/late.sh") >/dev/null 2>&1 &
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
`

// talk runs a command that may fail, and returns all that a user reads.
func (l *laptop) talk(args ...string) string {
	l.t.Helper()
	cmd := l.command(args...)
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err := cmd.Run()
	l.t.Logf("$ tunctl %s (%v)\n%s", strings.Join(args, " "), err, all.String())
	return all.String()
}

func TestChargedJobOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newLaptop(t, "[session.jupyter]\nhost = \"lab-login\"\nsubmit = \"~/jupyter.sh\"\nlocal = PORT\n")
	l.lab.WrapSbatch(submitsLate)
	if text := l.talk("up", "jupyter", "--no-open"); !strings.Contains(text, "cannot tell whether the job was submitted") {
		t.Error("an up whose answer was lost does not say so")
	}
	l.lab.WrapSbatch("exec \"$SBATCH\" \"$@\"\n")
	l.run("up", "jupyter", "--no-open")
	both, _ := l.until("shown with the job that came late", func(s api.Session) bool { return s.State == api.SessionReady && len(s.Others) == 1 })
	ids := []string{both.Job.ID, both.Others[0].ID}
	wants := func(text, what string) {
		t.Helper()
		for _, id := range ids {
			if !regexp.MustCompile(`\b` + id + `\b`).MatchString(text) {
				t.Errorf("%s does not name job %s", what, id)
			}
		}
	}
	wants(l.talk("status"), "status")
	wants(l.talk("status", "jupyter"), "status jupyter")

	l.lab.Cut("wifi")
	wants(l.talk("down", "jupyter", "--cancel", "--yes"), "a down without a connection")
	wants(l.talk("status"), "status after it")
	l.lab.Restore("wifi")
	for _, id := range ids {
		l.lab.WaitJob(id, "CANCELLED")
	}

	l.run("up", "jupyter", "--no-open")
	job := l.status().Job.ID
	l.run("down", "jupyter")
	l.run("agent", "stop")
	raw, err := os.ReadFile(l.lab.SSHConfig())
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`(?s)Host lab-login\b.*?HostName (\S+)`).FindSubmatch(raw)[1]
	edited := filepath.Join(t.TempDir(), "ssh_config")
	if err := os.WriteFile(edited, append([]byte("Host lab-login\n  HostName ::ffff:"+string(address)+"\n  HostKeyAlias "+string(address)+"\n"), raw...), 0o600); err != nil {
		t.Fatal(err)
	}
	l.env = append(l.env, "TUNCTL_SSH_CONFIG="+edited)
	l.talk("status")
	l.talk("down", "jupyter", "--cancel", "--yes")
	l.lab.WaitJob(job, "CANCELLED")
	l.talk("status")
}
