package agent_test

import (
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/lab"
)

func TestASessionWithoutAPageIsReadyInEveryRunOfItsJob(t *testing.T) {
	for _, dialect := range []string{lab.Slurm, lab.PBS} {
		t.Run(dialect, func(t *testing.T) {
			w := newWorldOf(t, dialect)
			w.write(w.paths.Config, "[session.jupyter]\nhost = \"practice\"\napp = \"shell\"\nsubmit = \"~/idle.sh\"\n")
			w.write(filepath.Join(w.cluster.Home(), "idle.sh"), "#!/bin/sh\nwhile :; do sleep 1; done\n")
			if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
				t.Fatal(err)
			}
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
			if err := w.cluster.Requeue(s.Job.ID); err != nil {
				t.Fatal(err)
			}
			after := w.until("ready in the next run", func(s api.Session) bool { return s.State == api.SessionReady && s.Job.Restarts > 0 })
			if after.Job.ID != s.Job.ID {
				t.Errorf("job %s follows job %s", after.Job.ID, s.Job.ID)
			}
		})
	}
}

func TestForwardsOfASessionWithoutAPageFollowItsJob(t *testing.T) {
	w := newWorld(t)
	port := board(t, "the board")
	w.edit("[session.jupyter]\nhost = \"practice\"\napp = \"shell\"\nsubmit = \"~/jupyter.sh\"\nforward = [\"0:" + port + "\"]\n")
	s := w.idleJob("out.log")
	at := w.session().Forwards[0].Listen
	shows := func(when string) {
		t.Helper()
		if got := w.get(at, nil); got != "the board" { // it waits until the job is found
			t.Errorf("%s the forward leads to %.200q", when, got)
		}
	}
	shows("at first")
	if err := w.cluster.Requeue(s.Job.ID); err != nil {
		t.Fatal(err)
	}
	w.until("ready on another node", func(now api.Session) bool { return ready(now) && now.Job.Node != s.Job.Node })
	shows("after a move of the job")
	w.stop()
	w.start()
	shows("after a restart of the agent")
	if now := w.until("ready again", ready); len(now.Forwards) != 1 || now.Forwards[0].Listen != at || now.Local != "" {
		t.Errorf("after a restart of the agent it listens at %+v", now.Forwards)
	}
	if now, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter"}); err != nil || len(w.session().Forwards) > 0 {
		t.Errorf("after its down: %+v, %v", now, err)
	}
}
