package gridengine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

func TestAGridEngineJobThatNobodyAccountsForIsOverInTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		ran  bool
		want api.JobState
		says string
	}{
		"it ran":       {true, api.JobFinished, "qacct does not tell"},
		"it never ran": {false, api.JobNeverRan, "deleted before it ran"},
	} {
		t.Run(name, func(t *testing.T) {
			job := api.Job{ID: "7", State: api.JobQueued, Reason: api.ReasonGone}
			if newScheduler().ExplainGone(&job, c.ran); job.State != c.want || !strings.Contains(job.Hint, c.says) {
				t.Errorf("%+v", job)
			}
		})
	}
}

func TestWhatGridEngineRefusesOrCannotAnswerIsToldApart(t *testing.T) {
	const down = "error: commlib error: got select error (Connection refused)\n"
	for name, c := range map[string]struct {
		res  remote.Result
		want func(error) bool
	}{
		"success":              {remote.Result{}, func(err error) bool { return err == nil }},
		"the server is down":   {remote.Result{Exit: 1, Stderr: []byte(down)}, func(err error) bool { return errors.Is(err, remote.ErrNoAnswer) }},
		"told on the wrong fd": {remote.Result{Exit: 1, Stdout: []byte(`unable to send message to qmaster using port 6444 on host "ctl": got send error`)}, func(err error) bool { return errors.Is(err, remote.ErrNoAnswer) }},
		"the server hangs":     {remote.Result{Exit: 124}, func(err error) bool { return errors.Is(err, remote.ErrNoAnswer) }},
		"no such job":          {remote.Result{Exit: 1, Stdout: []byte(`denied: job "16" does not exist`)}, func(err error) bool { return errors.Is(err, sched.ErrNoJob) }},
		"no such jobs":         {remote.Result{Exit: 1, Stderr: []byte("Following jobs do not exist: \n99999\n")}, func(err error) bool { return errors.Is(err, sched.ErrNoJob) }},
		"not this host": {remote.Result{Exit: 1, Stdout: []byte(`denied: host "cn01" is not a submit host`)}, func(err error) bool {
			said, ok := errors.AsType[*api.Error](err)
			return ok && said.Hint == sched.FromLogin
		}},
		"not this person": {remote.Result{Exit: 1, Stdout: []byte(`alice - you do not have the necessary privileges to delete the job "16"`)}, func(err error) bool {
			said, ok := errors.AsType[*api.Error](err)
			return ok && strings.Contains(said.Message, "necessary privileges")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := problem("qdel", c.res); !c.want(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestASubmissionThatGridEngineMayHaveTakenIsInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		res   remote.Result
		doubt bool
	}{
		"killed":            {remote.Result{Exit: 124}, true},
		"no answer":         {remote.Result{Exit: 1, Stderr: []byte("Unable to run job: failed receiving gdi request response for mid=1 (got syncron message receive timeout error).\nExiting.\n")}, true},
		"success, no words": {remote.Result{}, true},
		"refused at once":   {remote.Result{Exit: 1, Stderr: []byte("error: commlib error: got select error (Connection refused)\nUnable to run job: unable to send message to qmaster using port 6444 on host \"ctl\": got send error\nExiting.\n")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newScheduler().ParseSubmit(c.res); errors.Is(err, sched.ErrDoubt) != c.doubt {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRecordAsks(t *testing.T) {
	const request = "<qstat_l_requests><CE_name>%s</CE_name><CE_valtype>3</CE_valtype><CE_stringval>%s</CE_stringval></qstat_l_requests>"
	records := parseRecords("<detailed_job_info><djob_info><element><JB_job_number>7</JB_job_number><JB_hard_resource_list>" +
		fmt.Sprintf(request, "h_rt", "7200") + fmt.Sprintf(request, "h_vmem", "2G") + fmt.Sprintf(request, "gpu", "1") + "</JB_hard_resource_list></element></djob_info></detailed_job_info>")
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	var job api.Job
	if records[0].addTo(&job, row{}); job.Limit != 7200 || job.Asks != "h_vmem=2G,gpu=1" {
		t.Errorf("%+v", job)
	}
}

func TestTheLogOfAGridEngineJobIsWhereItsOptionsSay(t *testing.T) {
	folders := []string{"/w/logs", "/h/out"}
	for name, c := range map[string]struct {
		cwd, stdout, tasks string
		want               string
	}{
		"nothing asked":            {"", "", "", "/h/nb.o7"},
		"with -cwd":                {"/w", "", "", "/w/nb.o7"},
		"a file":                   {"/w", "x.log", "", "/w/x.log"},
		"variables":                {"/w", "$JOB_NAME.$JOB_ID.$HOSTNAME", "", "/w/nb.7.c07"},
		"the home":                 {"/w", "$HOME/x", "", "/h/x"},
		"the home, by its tilde":   {"/w", "~/x.$JOB_ID", "", "/h/x.7"},
		"the same, with the name":  {"/w", "~mira/x", "", "/h/x"},
		"the home of another":      {"/w", "~bob/x", "", ""},
		"a folder":                 {"/w", "logs", "", "/w/logs/nb.o7"},
		"a folder in the home":     {"/w", "~/out", "", "/h/out/nb.o7"},
		"a folder, by its slash":   {"/w", "/elsewhere/", "", "/elsewhere/nb.o7"},
		"a folder without -cwd":    {"", "out", "", "/h/out/nb.o7"},
		"a task":                   {"/w", "", "3", "/w/nb.o7.3"},
		"a task's own name":        {"/w", "o.$TASK_ID", "3", "/w/o.3"},
		"tasks that wait":          {"/w", "", "3-9:1", ""},
		"tasks that wait, by name": {"/w", "o.$TASK_ID", "3-9:1", ""},
		"what is not known":        {"/w", "$WORK/x", "", ""},
		"nowhere":                  {"/w", "/dev/null", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := record{number: "7", name: "nb", user: "mira", home: "/h", cwd: c.cwd, stdout: c.stdout}
			row := row{number: "7", tasks: c.tasks, node: "c07"}
			if got := r.output(row, r.stdout, "o", folders, r.variables(row)); got != c.want {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}

func TestTheTasksOfAGridEngineArrayBelongToIt(t *testing.T) {
	g := newScheduler()
	jobs := []api.Job{{ID: "18.1", State: api.JobFinished}, {ID: "18.2", State: api.JobRunning}, {ID: "18.3-9:1", State: api.JobQueued}, {ID: "181", State: api.JobRunning}}
	job, ok := sched.Pick(g, jobs, "18")
	if !ok || job.ID != "18.2" {
		t.Errorf("picked %+v", job)
	}
	if job = g.AsRequested(job, "18"); job.ID != "18" || job.Task != "2" || g.TaskRef(job) != "18.2" {
		t.Errorf("as requested %+v", job)
	}
	if g.Matches(jobs[3], "18") || !g.IsTaskRange("18.3-9:1") || g.IsTaskRange("18.3") || g.ArrayOf("18.3-9:1") != "18" {
		t.Error("ids are confused")
	}
}

func TestTheSentenceOfQsubHasPrecedenceOverANumber(t *testing.T) {
	for answer, want := range map[string]string{
		"Your job 4711 (\"nb\") has been submitted\n12\n": "4711",
		"a word from the site\n4712\n":                    "4712",
		"4713.1-10:1\n":                                   "4713",
	} {
		if id, err := newScheduler().ParseSubmit(remote.Result{Stdout: []byte(answer)}); err != nil || id != want {
			t.Errorf("%q: %q, %v; want %q", answer, id, err, want)
		}
	}
}
