package agent_test

import (
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/lab"
)

func TestShellSession(t *testing.T) {
	for _, dialect := range []string{lab.Slurm, lab.PBS} {
		t.Run(dialect, func(t *testing.T) {
			w := newWorldOf(t, dialect)
			w.write(w.paths.Config, "[session.jupyter]\nhost = \"practice\"\napp = \"shell\"\nsubmit = \"~/idle.sh\"\n")
			w.write(filepath.Join(w.cluster.Home(), "idle.sh"), "#!/bin/sh\nwhile :; do sleep 1; done\n")
			w.bringUp()
			s := w.until("ready", ready)
			if s.Endpoint != nil || s.URL != "" || s.Local != "" || len(s.Forwards) > 0 || s.App != api.AppShell {
				t.Errorf("it has a page: %+v", s)
			}
			if _, err := w.client.Page(t.Context(), "jupyter"); err == nil || !strings.Contains(err.Error(), "has no page") {
				t.Errorf("its page: %v", err)
			}
			_, err := w.client.EndpointPage(t.Context(), "jupyter", "dask")
			isCode(t, err, api.CodeUsage, "`tunctl ssh jupyter` opens a shell there")

			w.cluster.DropAll()
			w.until("ready again", func(s api.Session) bool { return s.State == api.SessionReady && len(w.cluster.Jobs()) == 1 })

			if dialect == lab.PBS {
				return
			}
			must(t, w.cluster.Requeue(s.Job.ID))
			after := w.until("ready in the next run", func(s api.Session) bool { return s.State == api.SessionReady && s.Job.Restarts > 0 })
			if after.Job.ID != s.Job.ID {
				t.Errorf("job %s follows job %s", after.Job.ID, s.Job.ID)
			}
		})
	}
}
