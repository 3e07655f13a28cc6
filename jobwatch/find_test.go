package jobwatch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
)

// TestFindChoice has jobs of one name, those submitted later with a higher number.
func TestFindChoice(t *testing.T) {
	nb := func(id string, minute int, state api.JobState) api.Job {
		job := api.Job{ID: id, Name: "nb", State: state, Submitted: time.Unix(1794702600, 0).Add(time.Duration(minute) * time.Minute)}
		if state == api.JobRunning {
			job.Node = "lyra0" + id
		}
		return job
	}
	tagged := func(job api.Job) api.Job {
		job.Script = "/h/.tunctl/tag-1/job.sh"
		return job
	}
	running, configuring, queued := nb("1", 0, api.JobRunning), nb("2", 1, api.JobConfiguring), nb("3", 2, api.JobQueued)
	newer, held, second := nb("4", 3, api.JobQueued), nb("5", 4, api.JobHeld), nb("6", 5, api.JobRunning)
	ending, over := tagged(nb("8", 7, api.JobCompleting)), nb("9", 8, api.JobCancelled)
	array := []api.Job{nb("54_[4-6]", 0, api.JobQueued), nb("54_3", 0, api.JobRunning), nb("54_1", 0, api.JobRunning), nb("54_2", 0, api.JobRunning)}
	byName, byTag := Query{Name: "nb"}, Query{Tag: "tag-1"}
	for name, tt := range map[string]struct {
		query Query
		jobs  []api.Job
		want  string // the job, or the error
	}{
		"the one that runs":                           {byName, []api.Job{held, newer, queued, configuring, running}, "1"},
		"the one that is about to run":                {byName, []api.Job{held, newer, queued, configuring}, "2"},
		"the newest that waits":                       {byName, []api.Job{held, queued, newer}, "4"},
		"one that is held":                            {byName, []api.Job{held}, "5"},
		"none that ends":                              {byName, []api.Job{running, ending, over}, "1"},
		"only those that end":                         {byName, []api.Job{ending, over}, ""},
		"one that was submitted, though it ends":      {byTag, []api.Job{running, ending, over}, "8"},
		"the newest of a tag, though another runs":    {byTag, []api.Job{tagged(running), tagged(second)}, "6"},
		"two that run":                                {byName, []api.Job{running, held, second}, `2 jobs called "nb" are running: 6 on lyra06, 1 on lyra01`},
		"the tasks of an array are one job":           {byName, array, "54_1"},
		"an array and another job, both of which run": {byName, append(array[1:2:2], nb("60", 1, api.JobRunning)), `2 jobs called "nb" are running: 60 on lyra060, 54_3 on lyra054_3`},
	} {
		t.Run(name, func(t *testing.T) {
			job, found, err := tt.query.choose(newScheduler(slurmName), tt.jobs)
			got := job.ID
			if ambiguous, ok := errors.AsType[*AmbiguousError](err); ok {
				got = ambiguous.Error()
			}
			if got != tt.want || found != (job.ID != "") {
				t.Errorf("%q, %v, %v; want %q", got, found, err, tt.want)
			}
		})
	}
}

// TestUnreadableList has programs that do not print what they are asked for: that is not "no jobs".
func TestUnreadableList(t *testing.T) {
	const empty = "\nsrv: \n\nJob ID          Username Queue    Jobname    S Time\n--------------- -------- -------- ---------- - -----\n"
	for name, c := range map[string]struct {
		scheduler, program, prints string
		want                       string // part of the error; "": there are no jobs
	}{
		"PBS: nothing":                {pbsName, "qstat", "", ""},
		"PBS: headings alone":         {pbsName, "qstat", empty, ""},
		"PBS: a row too few":          {pbsName, "qstat", empty + "7.srv           mira     normal\n", "does not print the table"},
		"PBS: another table":          {pbsName, "qstat", "ID   STATE\n7    running\n", "does not print the table"},
		"PBS: JSON":                   {pbsName, "qstat", `{"Jobs":{"7.srv":{"Job_Name":"nb"}}}`, "does not print the table"},
		"Slurm: a table":              {slurmName, "squeue", "             JOBID PARTITION     NAME     USER ST\n                 7      day       nb     mira  R\n", "prints a table instead"},
		"Grid Engine: a table":        {gridEngineName, "qstat", "job-ID prior name\n---\n 7 0.5 x\n", "does not print the XML"},
		"Grid Engine: cut short":      {gridEngineName, "qstat", strings.TrimSuffix(geList("1 r"), "</job_info>\n"), "does not print the XML"},
		"Grid Engine: nothing":        {gridEngineName, "qstat", "", "does not print the XML"},
		"Grid Engine: something else": {gridEngineName, "qstat", "<?xml version='1.0'?>\n<unknown_jobs >\n</unknown_jobs>\n", "does not print the XML"},
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			m.Write(t, "answer", c.prints)
			m.Program(t, c.program, `cat "$HOME/answer"`)
			_, found, err := watcher(m, c.scheduler).Find(t.Context(), Query{Name: "nb"})
			if found || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}
