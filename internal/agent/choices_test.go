package agent_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
	"tunctl/jobwatch"
)

func TestChoices(t *testing.T) {
	t.Parallel()
	t.Run("of an interrupted submission are used to finish it", func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		store, err := state.Open(w.paths.StateFile())
		must(t, err)
		// As an agent leaves it that ended just before the scheduler's answer.
		err = store.Update("jupyter", func(r *state.Session) {
			r.Submissions = state.Submissions{{Tag: "jupyter-interrupted", Role: state.RoleJob, Host: "practice", With: api.Choices{"hours": "3"}}}
		})
		must(t, err)
		w.start()
		must(t, w.upWith(api.UpRequest{Session: "jupyter", With: api.Choices{"hours": "8"}}))
		failed := w.until("failed", failed)
		if failed.Code != api.CodeOtherChoices || !strings.Contains(failed.Cause, "interrupted") || !strings.Contains(failed.Cause, "hours=3") {
			t.Errorf("%+v", failed)
		}
		w.hasJobs(0)
		if s := w.up(); s.With["hours"] != "3" || s.Job.End.Sub(s.Job.Start) != 3*time.Hour {
			t.Errorf("with %v: %+v", s.With, s.Job)
		}
	})
	t.Run("that are newest are used while nothing is submitted yet", func(t *testing.T) {
		w := newWorld(t)
		must(t, w.cluster.Refuse(true))
		for _, hours := range []string{"3", "5"} {
			must(t, w.upWith(api.UpRequest{Session: "jupyter", With: api.Choices{"hours": hours}}))
		}
		must(t, w.cluster.Refuse(false))
		must(t, w.upWith(api.UpRequest{Session: "jupyter", With: api.Choices{"hours": "6"}}))
		if s := w.until("ready", ready); s.With["hours"] != "6" || s.Job.End.Sub(s.Job.Start) != 6*time.Hour {
			t.Errorf("with %v: %+v", s.With, s.Job)
		}
	})
	t.Run("are listed with the last five", func(t *testing.T) {
		w := newWorld(t)
		w.write(filepath.Join(configs.SitesFolder(w.paths.Config), "strict.toml"), `like = "slurm"
	title = "Strict"
	[queue.short]
	limit = "2h"
	[question.partition]
	ask = "Which partition?"
	kind = "queue"
	`)
		w.write(w.paths.Config, "[host.practice]\nsite = \"strict\"\n[session.jupyter]\nhost = \"practice\"\nsubmit = \"builtin:jupyter\"\nwith = { cpus = 4 }\n"+
			"[session.own]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n[session.db]\nhost = \"practice\"\nforward = [\"0:db:5432\"]\n")
		w.stop()
		store, err := state.Open(w.paths.StateFile())
		must(t, err)
		for i := range 7 {
			err := store.Update("jupyter", func(r *state.Session) { r.AddRecent(api.Choices{"hours": fmt.Sprint(1 + i%6)}) })
			must(t, err)
		}
		store.SetFound("practice", map[string][]string{"account": {"def", "not one word"}, "partition": {"gpu"}})
		w.start()
		known, err := w.client.Choices(t.Context(), "jupyter", false)
		must(t, err)
		values, choices, found := map[string]string{}, map[string]string{}, ""
		for _, o := range known.Options {
			values[o.Name] = o.Value
			found += strings.Join(o.Known, " ")
			if len(o.Choices) > 0 {
				choices[o.Name] = strings.Join(o.Choices, " ")
			}
			if o.Ask == "" {
				t.Errorf("%s has no question", o.Name)
			}
		}
		if values["cpus"] != "4" || values["hours"] == "" || !maps.Equal(choices, map[string]string{"partition": "short"}) || found != "def" {
			t.Errorf("options %+v", known.Options)
		}
		if got := fmt.Sprint(known.Recent); got != "[hours=1 hours=6 hours=5 hours=4 hours=3]" {
			t.Errorf("recent choices %s", got)
		}
		own, err := w.client.Choices(t.Context(), "own", false)
		if err != nil || len(own.Options) != len(jobwatch.ListedChoices("slurm")) || own.Recent == nil {
			t.Errorf("of a script: %+v, %v", own, err)
		}
		if none, err := w.client.Choices(t.Context(), "db", false); err != nil || len(none.Options) != 0 {
			t.Errorf("of forwards: %+v, %v", none, err)
		}

		// Choices are checked before anything is connected.
		for want, with := range map[string]api.Choices{
			`"cpu" is nothing`:       {"cpu": "2"},
			"must be a whole number": {"cpus": "many"},
			"more than queue short":  {"partition": "short", "hours": "3"},
		} {
			err := w.upWith(api.UpRequest{Session: "jupyter", With: with})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v", with, err)
			}
		}
		isCode(t, w.upWith(api.UpRequest{Session: "db", With: api.Choices{"hours": "2"}}), api.CodeUsage, "")
		if n := w.cluster.Logins(); n != 0 {
			t.Errorf("%d logins", n)
		}

		w.script("#!/bin/sh\n#SBATCH --time=90 --mem=2G\n")
		w.login("practice")
		w.untilHost("practice", "connected", func(h api.Host) bool { return h.State == api.HostUp })
		own, err = w.client.Choices(t.Context(), "own", true)
		inScript := api.Choices{}
		for _, o := range own.Options {
			if o.Script != "" {
				inScript[o.Name] = o.Script
			}
		}
		if err != nil || inScript.String() != "hours=1.5, memory=2G" {
			t.Errorf("the script has %v, %v", inScript, err)
		}
	})
	t.Run("that the arguments override are refused", func(t *testing.T) {
		w := newWorld(t)
		w.edit("[host.practice]\nscheduler = \"slurm\"\n[session.jupyter]\nhost = \"practice\"\nsubmit = \"builtin:jupyter\"\nargs = [\"-t\", \"4:00:00\", \"--job-name=nb\"]\njob = \"nb\"\n")
		must(t, w.upWith(api.UpRequest{Session: "jupyter", With: api.Choices{"hours": "8"}}))
		failed := w.until("failed", failed)
		if failed.Code != api.CodeUsage || !strings.Contains(failed.Cause, "has --time, which would override hours=8") {
			t.Errorf("%+v", failed)
		}
		w.hasJobs(0)
		var previews []api.Preview
		err := w.client.Preview(t.Context(), api.PreviewRequest{Session: "jupyter", With: []api.Choices{{"cpus": "1"}}}, func(p api.Preview) { previews = append(previews, p) })
		if err != nil || len(previews) != 1 || previews[0].Refused != "" {
			t.Errorf("what args does not have: %+v, %v", previews, err)
		}
		must(t, w.upWith(api.UpRequest{Session: "jupyter", As: "more", With: api.Choices{"cpus": "1"}}))
		w.until("there, with a second one", func(api.Session) bool { return len(w.cluster.Jobs()) == 1 })
		if job := w.cluster.Jobs()[0]; job.Name != "more" {
			t.Errorf("the second one's job is called %q", job.Name)
		}
	})
}

func TestSecondSession(t *testing.T) {
	t.Parallel()
	t.Run("outlives its section of the config", func(t *testing.T) {
		w := newWorld(t)
		first := w.up()
		must(t, w.upWith(api.UpRequest{Session: "jupyter", As: "more", With: api.Choices{"hours": "3"}}))
		session := func(name string) api.Session {
			st := w.status()
			s, _ := st.Session(name)
			return s
		}
		w.until("ready, and the second one too", func(api.Session) bool { return session("more").State == api.SessionReady })
		more := session("more")
		if more.Of != "jupyter" || more.Job.ID == first.Job.ID || more.Local == first.Local || more.Job.Name != "more" {
			t.Errorf("the second session is %+v", more)
		}
		w.restart("[session.other]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n", nil)
		wait.Until(t, "it is ready after a restart without its section", func() bool { return session("more").State == api.SessionReady })
		if again := session("more"); again.Job.ID != more.Job.ID || again.Local != more.Local {
			t.Errorf("another one: %+v", again)
		}
	})
	t.Run("has a job that is never taken for that of another", func(t *testing.T) {
		w := newWorld(t)
		w.edit("[session.jupyter-notebook]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\njob = \"jupyter-noteboo\"\n" +
			"[session.lab]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\njob = \"nb\"\n")
		for name, by := range map[string]string{"jupyter-notebook2": "jupyter-notebook", "nb": "lab"} { // PBS shortens the first
			err := w.upWith(api.UpRequest{Session: "jupyter-notebook", As: name})
			e, _ := errors.AsType[*api.Error](err)
			if e == nil || !strings.Contains(e.Message, "session "+by+" would take the job") || !strings.HasSuffix(e.Hint, "--as jupyter-notebook-2") {
				t.Errorf("--as %s: %+v", name, e)
			}
		}
		if n := w.cluster.Logins(); n != 0 {
			t.Errorf("%d logins", n)
		}
	})
	t.Run("that cannot be started leaves nothing", func(t *testing.T) {
		w := newWorld(t)
		w.edit(config + "[session.other]\nnothing = 1\n")
		isCode(t, w.upWith(api.UpRequest{Session: "jupyter", As: "more"}), api.CodeConfig, "")
		st := w.status()
		if s, ok := st.Session("more"); ok {
			t.Errorf("it is listed: %+v", s)
		}
		w.stop()
		store, err := state.Open(w.paths.StateFile())
		must(t, err)
		if rec := store.Session("more"); rec.Of != "" {
			t.Errorf("it is remembered: %+v", rec)
		}
		err = store.Update("more", func(r *state.Session) {
			r.Submissions = state.Submissions{{Role: state.RoleJob, Host: "practice", Job: &api.Job{ID: "7", State: api.JobRunning}}}
		})
		must(t, err)
		w.write(w.paths.Config, config)
		w.start()
		isCode(t, w.upWith(api.UpRequest{Session: "jupyter", As: "more"}), api.CodeUsage, "")
	})
	t.Run("has a job that does not write to the first one's log", func(t *testing.T) {
		w := newWorld(t)
		w.script("#!/bin/sh\n#SBATCH --output=nb.log\nexec sleep 600\n")
		must(t, w.upWith(api.UpRequest{Session: "jupyter", As: "more"}))
		failed := w.until("failed", func(s api.Session) bool { return s.Name == "more" && s.State == api.SessionFailed })
		if !strings.Contains(failed.Cause, "would write to the same log as the first one: nb.log") || len(w.cluster.Jobs()) != 0 {
			t.Errorf("%+v, jobs %q", failed, states(w.cluster.Jobs()))
		}
	})
	t.Run("finds its job again where names are short", func(t *testing.T) {
		w := newWorldOf(t, lab.PBS)
		w.edit("[host.practice]\nscheduler = \"pbs\"\n[session.jupyter]\nhost = \"practice\"\nsubmit = \"builtin:command\"\ncommand = \"sleep 600; : {port}\"\n")
		const name = "a-long-name-of-a-session-2"
		up := func() string {
			t.Helper()
			must(t, w.upWith(api.UpRequest{Session: "jupyter", As: name}))
			return w.until("with its job", func(s api.Session) bool {
				return s.Name == name && (s.State == api.SessionQueued || s.State == api.SessionStarting) // found, and not just remembered
			}).Job.ID
		}
		first := up()
		_, err := w.client.Down(t.Context(), api.DownRequest{Session: name})
		must(t, err)
		if again := up(); again != first || len(w.cluster.Jobs()) != 1 {
			t.Errorf("job %s, and after a down job %s; jobs %q", first, again, states(w.cluster.Jobs()))
		}
	})
}
