package agent_test

import (
	"context"
	"slices"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/wait"
)

func TestLastJobs(t *testing.T) {
	w := newWorld(t)
	for _, host := range []string{"practice", "mistyped"} {
		if jobs, err := w.client.LastJobs(t.Context(), host); err != nil || len(jobs) > 0 {
			t.Errorf("before anything is known of %s: %+v, %v", host, jobs, err)
		}
	}
	w.untouched(0)
	session := w.up()
	w.cluster.Controller(false) // whoever asks it now is not answered
	w.cluster.Pause()
	defer w.cluster.Resume()
	jobs, err := w.client.LastJobs(t.Context(), "practice")
	if err != nil || len(jobs) != 1 || jobs[0].ID != session.Job.ID {
		t.Errorf("the jobs are %+v, %v; want %s", jobs, err, session.Job.ID)
	}
}

// untouched checks that the cluster was logged in to so often, and that the agent has
// not taken a mistyped name for a host.
func (w *world) untouched(logins int) {
	w.t.Helper()
	st := w.status()
	if n := w.cluster.Logins(); n != logins || slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == "mistyped" }) {
		w.t.Errorf("%d logins, hosts %+v", n, st.Hosts)
	}
}

func TestEndJobs(t *testing.T) {
	w := newWorld(t)
	session := w.up()
	ctx, leave := context.WithCancel(t.Context())
	var refused *api.Error
	_ = w.client.EndJobs(ctx, []api.EndJob{{Host: "practice", Job: "999999"}, {Session: session.Name}}, func(p api.EndJobsProgress) {
		refused = p.Error
		leave() // the page is closed
	})
	if refused == nil {
		t.Error("a job that does not exist was ended")
	}
	wait.Until(t, "the session's job ends", func() bool {
		st := w.status()
		s, _ := st.Session(session.Name)
		return s.State == api.SessionDown && !s.HasLiveJob()
	})
}
