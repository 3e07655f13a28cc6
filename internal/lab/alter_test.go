package lab

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/wait"
)

func TestATimeLimitIsExtendedOnlyWhereTheSiteAllowsIt(t *testing.T) {
	t.Parallel()
	for dialect, words := range map[string]struct{ submit, extend, shorten, refusal string }{
		Slurm: {
			"sbatch --parsable --time=1:00:00 --wrap 'sleep 600'",
			"scontrol update JobId=1001 TimeLimit=02:00:00", "scontrol update JobId=1001 TimeLimit=00:00:01", "Access/permission denied",
		},
		PBS: {
			"printf 'sleep 600' | qsub -l walltime=1:00:00",
			"qalter -l walltime=02:00:00 1001", "qalter -l walltime=00:00:01 1001", "Unauthorized Request",
		},
	} {
		t.Run(dialect, func(t *testing.T) {
			c := practice(t, Options{Dialect: dialect, QueueFor: -1})
			client := dial(t, c)
			if got := run(t, client, words.submit, ""); got.status != 0 {
				t.Fatalf("submit: %+v", got)
			}
			wait.Until(t, "the job to run", func() bool { return c.Jobs()[0].State == stateRunning })
			if got := run(t, client, words.extend, ""); got.status == 0 || !strings.Contains(got.stderr, words.refusal) {
				t.Errorf("a student extends a job: %+v", got)
			}
			c.AllowExtend(true)
			if got := run(t, client, words.extend, ""); got.status != 0 {
				t.Errorf("extend: %+v", got)
			}
			if got := c.batch.views()[0].limit; got != 2*time.Hour {
				t.Errorf("the limit is %v", got)
			}
			if got := run(t, client, words.shorten, ""); got.status != 0 {
				t.Errorf("shorten: %+v", got)
			}
			wait.Until(t, "the job to reach its limit", func() bool { return c.Jobs()[0].State == stateTimeout })
		})
	}
}
