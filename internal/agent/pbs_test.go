package agent_test

import (
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/lab"
)

func TestJobLog(t *testing.T) {
	for _, dialect := range []string{lab.Slurm, lab.PBS} {
		t.Run(dialect, func(t *testing.T) {
			w := newWorldOf(t, dialect)
			w.up()
			job, err := w.client.Submit(t.Context(), "practice", api.SubmitRequest{Script: "~/hello.sh"})
			if err == nil {
				t.Fatalf("a script that is not there made %+v", job)
			}
			w.write(filepath.Join(w.cluster.Home(), "hello.sh"), "#!/bin/sh\necho hello from token=abcdef0123456789\n")
			if job, err = w.client.Submit(t.Context(), "practice", api.SubmitRequest{Script: "~/hello.sh"}); err != nil {
				t.Fatal(err)
			}
			must(t, w.cluster.Await(t.Context(), job.ID))
			text := ""
			q := api.LogQuery{Host: "practice", Job: job.ID}
			must(t, w.client.Log(t.Context(), q, func(c api.LogChunk) { text += c.Text }))
			if text != "hello from token=•••\n" {
				t.Errorf("the log is %q", text)
			}
			q.Job = "99999"
			if err := w.client.Log(t.Context(), q, func(api.LogChunk) {}); err == nil || !strings.Contains(err.Error(), `no job "99999"`) {
				t.Errorf("of an unknown job: %v", err)
			}
		})
	}
}
