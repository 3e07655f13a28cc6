package agent_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/lab"
)

// script writes the session's job script.
func (w *world) script(text string) {
	w.t.Helper()
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), text)
}

func TestAJobWhoseOutputPBSSpoolsIsFoundByJupytersOwnFileAndSaysWhatIsWrong(t *testing.T) {
	w := newWorldOf(t, lab.PBS)
	w.script("#!/bin/sh\n#PBS -N spooled\n#PBS -k n\necho hello\nexec sleep 600\n")
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	s := w.until("starting, with what is wrong", func(s api.Session) bool {
		return s.State == api.SessionStarting && strings.HasPrefix(s.Cause, "PBS keeps the output of job ") && s.Hint == api.HintSpooled
	})
	err := w.client.Log(t.Context(), api.LogQuery{Session: "jupyter"}, func(api.LogChunk) {})
	if said, ok := errors.AsType[*api.Error](err); !ok || said.Hint != api.HintSpooled {
		t.Errorf("the log: %v", err)
	}
	_, port := notebook(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	w.write(filepath.Join(w.cluster.Home(), ".local/share/jupyter/runtime/jpserver-77.json"), fmt.Sprintf(
		`{"base_url": "/", "hostname": %q, "pid": 77, "port": %s, "sock": "", "token": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "url": "http://%[1]s:%[2]s/"}`,
		s.Job.Node, port))
	w.until("ready", ready)
	if code := w.fetch(); code != http.StatusOK {
		t.Errorf("the page answers %d", code)
	}
}

func TestASessionBroughtUpRightAfterItsJobWasCancelledGetsANewJob(t *testing.T) {
	w := newWorldOf(t, lab.PBS)
	w.write(w.paths.Config, config+"job    = \"slowly\"\n")
	w.script("#!/bin/sh\n#PBS -N slowly\ntrap '' TERM\nwhile :; do sleep 0.1; done\n")
	if err := w.client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := func(s api.Session) bool { return s.State == api.SessionStarting && s.Job.Node != "" }
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	first := w.until("starting", running)
	if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err != nil {
		t.Fatal(err)
	}
	if old := w.cluster.Jobs()[0]; old.Over() {
		t.Fatalf("the job was over at once: %+v", old)
	}
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	if second := w.until("starting", running); second.Job.ID == first.Job.ID {
		t.Errorf("it adopted job %s, which is about to end", first.Job.ID)
	}
}

func TestASessionWorksAtAServerThatKeepsNoHistory(t *testing.T) {
	w := newWorldOf(t, lab.PBS)
	w.cluster.History(false)
	s := w.up()
	if code := w.fetch(); code != http.StatusOK {
		t.Errorf("the page answers %d", code)
	}
	if err := w.cluster.KillJob(s.Job.ID); err != nil {
		t.Fatal(err)
	}
	ended := w.until("ended", func(s api.Session) bool { return s.State == api.SessionEnded })
	if !strings.Contains(ended.Cause, "keeps no job history") {
		t.Errorf("it ended with %q", ended.Cause)
	}
}

func TestTheLogOfAJobThatBelongsToNoSessionIsShown(t *testing.T) {
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
			if err := w.cluster.Await(t.Context(), job.ID); err != nil {
				t.Fatal(err)
			}
			text := ""
			q := api.LogQuery{Host: "practice", Job: job.ID}
			if err := w.client.Log(t.Context(), q, func(c api.LogChunk) { text += c.Text }); err != nil {
				t.Fatal(err)
			}
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
