package agent_test

import (
	"strings"
	"testing"

	"tunctl/configs"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
)

const renamed = `
[session.lab]
host   = "practice"
submit = "~/jupyter.sh"
`

func TestRemovedSession(t *testing.T) {
	w := newWorld(t)
	job := w.up().Job
	refuses := func(when string) {
		t.Helper()
		_, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"})
		if err == nil || !strings.Contains(err.Error(), "no longer in "+w.paths.Config) {
			t.Errorf("%s: %v", when, err)
		}
	}
	knowsJob := func(when string) {
		t.Helper()
		s := w.session()
		if s.Job == nil || s.Job.ID != job.ID || s.Job.State.Ended() || s.Host != "practice" {
			t.Errorf("%s: %+v", when, s)
		}
	}
	w.edit(renamed)
	refuses("while it is up")
	w.down(false)
	refuses("while its job runs")
	knowsJob("after its down")
	w.stop()
	cfg, err := configs.Load(w.paths.Config)
	must(t, err)
	st, err := session.LastKnown(cfg, w.paths.StateFile())
	if err != nil || len(st.Sessions) != 2 || st.Sessions[0].Name != "lab" || st.Sessions[1].Name != "jupyter" || st.Sessions[1].Job.ID != job.ID {
		t.Errorf("without an agent: %+v, %v", st.Sessions, err)
	}
	w.start()
	refuses("after a restart")
	knowsJob("after a restart")
	if hint := w.session().Hint; !strings.Contains(hint, "`tunctl attach practice "+job.ID+"`") || strings.Contains(hint, "tunctl up") {
		t.Errorf("the hint is %q", hint)
	}
	w.edit(config)
	if after := w.up(); after.Job.ID != job.ID {
		t.Errorf("in the config again, it has job %s, not %s", after.Job.ID, job.ID)
	}
	w.edit(renamed)
	w.down(true)
	if s := w.session(); s.Name != "" {
		t.Errorf("without a job, it is still listed: %+v", s)
	}
	w.hasJobs(1)
}
