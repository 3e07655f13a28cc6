package jobwatch

import (
	"reflect"
	"testing"

	"tunctl/internal/dev/jobtest"
)

func TestASlurmJobsOtherLogsAreItsErrorsAndWhatItsScriptRedirects(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"nothing":          {"srun jupyter lab\n", []string{"/w/err.7"}},
		"its own log":      {"jupyter lab >& $HOME/logs/jupyter-$SLURM_JOB_ID.log\n", []string{"/w/err.7", "~/logs/jupyter-7.log"}},
		"a fixed name":     {"jupyter notebook --no-browser &> jupyter.log &\n", []string{"/w/err.7", "/w/jupyter.log"}},
		"by tee":           {"jupyter lab 2>&1 | tee -a ${SLURM_JOB_NAME}.txt\n", []string{"/w/err.7", "/w/nb.txt"}},
		"by exec":          {"exec 1>\"$SLURM_SUBMIT_DIR/o.out\" 2>&1\n", []string{"/w/err.7", "/w/o.out"}},
		"the usual one":    {"jupyter lab > out.7 2>&1\n", []string{"/w/err.7"}},
		"not a log":        {"module list 2> /dev/null; hostname > node; x > $(hostname).log; y > $TMP/a.log\n# z > b.log\n", []string{"/w/err.7"}},
		"not without end":  {"a>1.log; b>2.log; c>3.log; d>4.log\n", []string{"/w/err.7", "/w/1.log", "/w/2.log"}},
		"the same twice":   {"a >> x.log\nb >> x.log\n", []string{"/w/err.7", "/w/x.log"}},
		"a number's sign":  {"if (( n > 3 )); then echo; fi\n", []string{"/w/err.7"}},
		"standard outputs": {"echo x >&2; jupyter lab 2>&1\n", []string{"/w/err.7"}},
	} {
		m := jobtest.NewMachine(t)
		m.Write(t, "job.sh", c.script)
		m.Program(t, "scontrol", `echo "JobId=7 JobName=nb UserId=ann(1) GroupId=g(1) MCS_label=N/A JobState=RUNNING Reason=None Restarts=0 ExitCode=0:0 NodeList=cn01 Command=$HOME/job.sh WorkDir=/w StdErr=/w/err.7 StdIn=/dev/null StdOut=/w/out.7 Power="`)
		job, found, err := slurmWatcher(m).Detail(t.Context(), "7")
		if err != nil || !found || job.Log != "/w/out.7" || !reflect.DeepEqual(job.OtherLogs, c.want) {
			t.Errorf("%s: %v, %v, log %q and %q, want %q", name, found, err, job.Log, job.OtherLogs, c.want)
		}
	}
}
