package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
)

func TestRemovedSession(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		refuses := func(when string) {
			m.t.Helper()
			_, err := l.agent.Sessions.Up(context.Background(), api.UpRequest{Session: modelSession})
			if err == nil || !strings.Contains(err.Error(), "no longer in "+l.paths.Config) {
				m.t.Errorf("%s: %v", when, err)
			}
		}
		knowsJob := func(when string) {
			m.t.Helper()
			if s := l.status(); s.Job == nil || s.Job.ID != "101" || s.Job.State.Ended() || s.Host != "hpc" {
				m.t.Errorf("%s: %+v", when, s)
			}
		}
		l.mustUp()
		l.section = false
		l.reload()
		refuses("while it is up")
		l.down(false)
		refuses("while its job runs")
		knowsJob("after its down")
		cfg, err := configs.Load(l.paths.Config)
		must(m.t, err)
		st, err := session.LastKnown(cfg, l.paths.StateFile())
		if s, listed := st.Session(modelSession); err != nil || !listed || s.Job.ID != "101" {
			m.t.Errorf("without an agent: %+v, %v", st.Sessions, err)
		}
		l.crash()
		refuses("after a restart")
		knowsJob("after a restart")
		if hint := l.status().Hint; !strings.Contains(hint, "`tunctl attach hpc 101`") || strings.Contains(hint, "tunctl up") {
			m.t.Errorf("the hint is %q", hint)
		}
		l.section = true
		l.reload()
		l.mustUp()
		knowsJob("in the config again")
		l.section = false
		l.reload()
		l.down(true)
		m.sleep(time.Minute)
		if st := l.agent.server.status(); len(st.Sessions) != 2 { // the array, and what it is called now
			m.t.Errorf("without a job, it is still listed: %+v", st.Sessions)
		}
		m.hasJobs(1)
	})
}
