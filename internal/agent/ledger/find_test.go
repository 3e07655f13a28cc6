package ledger

import (
	"strings"
	"testing"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

func TestFinder(t *testing.T) {
	t.Run("nothing is submitted without a permission", func(t *testing.T) {
		l, _ := newLedger(t)
		f := &finder{Ledger: l, jobs: jobwatch.NewWatcher(nil, jobwatch.Options{Scheduler: "slurm"})} // which has nobody to submit to
		if _, err := f.submit(t.Context()); !api.HasCode(err, api.CodeJobEnded) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("nobody is promised a job that a session cannot submit", func(t *testing.T) {
		l, owner := newLedger(t)
		owner.Session.Submit, owner.Session.Job = "", "lab"
		for name, rec := range map[string]state.Submission{"no job": {}, "a job that is gone": {Job: &api.Job{ID: "7"}}, "a job elsewhere": {Job: &api.Job{ID: "7"}, Account: "a@b"}} {
			err := (&finder{Ledger: l, account: "a@c"}).noJobError(rec)
			if hint := api.HintOf(err); strings.Contains(hint, "tunctl up") || !strings.Contains(hint, "start the job there") {
				t.Errorf("%s: %v, hint %q", name, err, hint)
			}
		}
	})
}
