package jobwatch

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/joblog"
)

// TestSlurmTooOld: a Slurm that is too old is named.
func TestSlurmTooOld(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Write(t, "squeue.fails", "squeue: unrecognized option '--me'\nTry \"squeue --help\" for more information\n")
	if _, err := slurmWatcher(m).Jobs(t.Context()); err == nil || !strings.Contains(err.Error(), "older than 20.02") {
		t.Error(err)
	}
}

// TestSlurmScript: the script is told from its arguments.
func TestSlurmScript(t *testing.T) {
	for name, c := range map[string]struct{ command, workdir, want string }{
		"arguments":             {"@/run.sh --lr=0.1 data", "@", "@/run.sh"},
		"a space in the name":   {"@/my job.sh data", "@", "@/my job.sh"},
		"a relative path":       {"sub/run.sh x", "@", "@/sub/run.sh"},
		"a script that is gone": {"@/gone.sh x", "@", "@/gone.sh x"},
	} {
		m := jobtest.NewMachine(t)
		if err := os.Mkdir(m.File("sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"run.sh", "my job.sh", "sub/run.sh"} {
			m.Write(t, file, "python serve.py > \"nb-$SLURM_JOB_ID.log\"\n")
		}
		here := strings.NewReplacer("@", m.Home)
		m.Write(t, "record", jobtest.ScontrolText("Command="+here.Replace(c.command), "WorkDir="+here.Replace(c.workdir)))
		m.Program(t, "scontrol", `cat "$HOME/record"`)
		job, ok, err := slurmWatcher(m).Detail(t.Context(), "7")
		if err != nil || !ok || job.Script != here.Replace(c.want) {
			t.Errorf("%s: %+v, %v, want the script %q", name, job, err, here.Replace(c.want))
		}
		if found := strings.Contains(strings.Join(job.OtherLogs, " "), "nb-7.log"); found == (c.command == "@/gone.sh x") {
			t.Errorf("%s: the files of its output are %q", name, job.OtherLogs)
		}
	}
}

// queueOf installs a Slurm on the machine whose squeue prints the file ~/queue (or
// ~/queue.CLUSTER with -M) and whose scontrol prints the file ~/job.ID.
func queueOf(t *testing.T, m *jobtest.Machine) {
	t.Helper()
	const options = `printf '%s\n' "$*" >>"$HOME/asked.${0##*/}"
cluster=
if test "$1" = -M; then cluster=.$2; shift 2; fi
`
	m.Program(t, "squeue", options+`cat "$HOME/queue$cluster" 2>/dev/null; exit 0`)
	m.Program(t, "scontrol", options+`for id; do :; done
cat "$HOME/job.$id$cluster" 2>/dev/null || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }`)
	m.Program(t, "sacct", "exit 1")
	m.Program(t, "scancel", options+"exit 0")
}

// listed is a line of squeue.
func listed(id, array, task, state, node, cluster, name string) string {
	return jobtest.SqueueRecord(id, array, task, state, "p", node, "1794702600", "1794702650", "N/A", "0", "None", "/h/run.sh", "/h/%j", "1", "u", node, cluster, name)
}

// until waits until the watched job fits.
func until(t *testing.T, x *Watch, fits func(api.Job) bool) api.Job {
	t.Helper()
	for r := range x.C() {
		if fits(r.Job) {
			return r.Job
		}
		if r.State.Ended() {
			t.Fatalf("it ended: %+v", r.Job)
		}
	}
	t.Fatal("the watch is closed")
	return api.Job{}
}

// TestSlurmArray: an array is followed from task to task.
func TestSlurmArray(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	rest := func(tasks string) string { return listed("54", "54", tasks, "PENDING", "", "lab", "chain") }
	shown := func(id, task, state string) string {
		return jobtest.ScontrolText("JobId="+id, "ArrayJobId=54", "ArrayTaskId="+task, "JobName=chain", "JobState="+state, "NodeList=lyra01", "BatchHost=lyra01", "StdOut=/h/54_"+task+".out") + "\n"
	}
	m.Write(t, "queue", rest("2-4%1")+listed("55", "54", "1", "RUNNING", "lyra01", "lab", "chain"))
	m.Write(t, "job.54_1", shown("55", "1", "RUNNING"))
	w := slurmWatcher(m)
	job, found, err := w.Find(t.Context(), Query{Name: "chain"})
	if err != nil || !found || job.ID != "54" || job.Task != "1" || job.State != api.JobRunning || job.Log != "/h/54_1.out" {
		t.Fatalf("%+v, %v, %v", job, found, err)
	}
	serving(t, w)
	x := w.Watch(job.Ref())
	defer x.Close()
	until(t, x, func(j api.Job) bool { return j.State == api.JobRunning && j.Log == "/h/54_1.out" })

	m.Write(t, "job.54", shown("55", "1", "COMPLETED")+shown("54", "2-4%1", "PENDING"))
	m.Write(t, "queue", rest("2-4%1"))
	job = until(t, x, func(j api.Job) bool { return j.State == api.JobQueued })
	if job.ID != "54" || job.Log != "" {
		t.Errorf("between two tasks: %+v", job)
	}
	m.Write(t, "job.54_2", shown("56", "2", "RUNNING"))
	m.Write(t, "queue", rest("3-4%1")+listed("56", "54", "2", "RUNNING", "lyra01", "lab", "chain"))
	job = until(t, x, func(j api.Job) bool { return j.State == api.JobRunning })
	if job.ID != "54" || job.Task != "2" || job.Log != "/h/54_2.out" {
		t.Errorf("the second task: %+v", job)
	}
	m.Write(t, "job.54_3", shown("57", "3", "RUNNING"))
	m.Write(t, "queue", rest("4%1")+listed("57", "54", "3", "RUNNING", "lyra01", "lab", "chain"))
	if job = until(t, x, func(j api.Job) bool { return j.Task == "3" }); job.Log != "/h/54_3.out" {
		t.Errorf("the third task, which began before anybody asked: %+v", job)
	}
	m.Write(t, "job.54", shown("55", "1", "COMPLETED")+shown("58", "4", "TIMEOUT"))
	m.Write(t, "queue", "")
	for r := range x.C() {
		if job = r.Job; job.State.Ended() {
			break
		}
	}
	if job.State != api.JobTimeout {
		t.Errorf("the array ended as its last task did: %+v", job)
	}
}

// TestSlurmArrayFound: the tasks of an array that wait are found as the array.
func TestSlurmArrayFound(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	m.Write(t, "queue", listed("54", "54", "2-4%1", "PENDING", "", "lab", "chain")+listed("55", "54", "1", "RUNNING", "lyra01", "lab", "chain"))
	for asked, want := range map[string]string{"54_[2-4%1]": "54", "54": "54", "54_1": "54_1"} {
		job, found, err := slurmWatcher(m).Find(t.Context(), Query{ID: asked})
		if err != nil || !found || job.ID != want {
			t.Errorf("%s: %+v, %v, %v", asked, job, found, err)
		}
	}
}

// TestSlurmCluster: a job on another cluster is asked for there.
func TestSlurmCluster(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	m.Program(t, "sbatch", `echo "4711;gpu"`)
	w := slurmWatcher(m)
	args := []string{"-M", "gpu"}
	m.Write(t, "queue", listed("4711", "N/A", "N/A", "RUNNING", "lyra01", "lab", "another"))
	m.Write(t, "queue.gpu", listed("4711", "N/A", "N/A", "RUNNING", "viper01", "gpu", "nb"))
	m.Write(t, "job.4711.gpu", jobtest.ScontrolText("JobId=4711", "NodeList=viper01", "BatchHost=viper01", "StdOut=/h/gpu.out"))
	job, err := w.Submit(t.Context(), Submission{Tag: "t", Content: []byte("#!/bin/sh\n"), Base: "x.sh", Args: args})
	if err != nil || job.ID != "4711" || job.Cluster != "gpu" || job.Node != "viper01" {
		t.Fatalf("%+v, %v", job, err)
	}
	serving(t, w)
	x := w.Watch(job.Ref())
	defer x.Close()
	job = until(t, x, func(j api.Job) bool { return j.State == api.JobRunning })
	if job.ID != "4711" || job.Cluster != "gpu" || job.Node != "viper01" || job.Log != "/h/gpu.out" {
		t.Errorf("%+v", job)
	}
	if jobs, err := w.Jobs(t.Context()); err != nil || len(jobs) != 2 || jobs[0].Cluster != "" || jobs[1].Cluster != "gpu" {
		t.Errorf("%+v, %v", jobs, err)
	}
	if err := w.Extend(t.Context(), job.Ref(), time.Hour); err == nil || !strings.Contains(m.Read(t, "asked.scontrol"), "-M gpu update JobId=4711") {
		t.Errorf("extended by %q (%v)", m.Read(t, "asked.scontrol"), err)
	}
	if err := w.Cancel(t.Context(), job.Ref()); err != nil || m.Read(t, "asked.scancel") != "-M gpu 4711\n" {
		t.Errorf("cancelled by %q, %v", m.Read(t, "asked.scancel"), err)
	}

	// Another computer that only knows the session's arguments, and one that knows the id.
	for _, q := range []Query{{Name: "nb", Args: []string{"--time=1", "--clusters=gpu"}}, {ID: "4711;gpu"}} {
		job, found, err := slurmWatcher(m).Find(t.Context(), q)
		if err != nil || !found || job.Ref() != "4711;gpu" || job.Node != "viper01" {
			t.Errorf("%+v: %+v, %v, %v", q, job, found, err)
		}
	}
}

// TestSlurmClustersOfTheEnvironment: clusters of the user's environment are told.
func TestSlurmClustersOfTheEnvironment(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	m.Write(t, ".profile", m.PathLine()+"export SLURM_CLUSTERS=gpu,cpu\n")
	m.Write(t, "queue", listed("7", "N/A", "N/A", "RUNNING", "viper01", "gpu", "nb"))
	jobs, err := slurmWatcher(m).Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].Ref() != "7;gpu" {
		t.Errorf("%+v, %v", jobs, err)
	}
}

func TestMissingJob(t *testing.T) {
	running := api.Job{ID: "7", Name: "nb", State: api.JobRunning, Node: "cn01", Submitted: time.Unix(946684000, 0), Start: time.Unix(946684100, 0)}
	for name, tt := range map[string]struct {
		known bool          // reported by the watch's scheduler before
		back  time.Duration // when it knows the job again; zero: never
		acct  string        // what its accounting says of the job
	}{
		"that was seen running is over after two looks": {},
		"is over after two looks a minute apart":        {known: true},
		"runs after one wrong answer":                   {known: true, back: 30 * time.Second},
		"runs if the accounting says so":                {known: true, back: 10 * time.Minute, acct: "RUNNING"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				watch := serve(t, c).Watch("7")
				defer watch.Close()
				if tt.known {
					c.set(running)
					time.Sleep(Grace)
				} else {
					watch.SeenRunning("cn01")
				}
				c.forget("7", tt.acct)
				watch.QuerySoon()
				time.Sleep(cmp.Or(tt.back, 30*time.Second))
				for range 3 { // of the user who asks again and again
					watch.QuerySoon()
					time.Sleep(5 * time.Second)
				}
				if job := watch.Job(); job.State.Ended() {
					t.Fatalf("over after one answer: %+v", job)
				}
				if tt.back > 0 {
					c.set(running)
				}
				time.Sleep(3 * time.Minute)
				if job := watch.Job(); job.State.Ended() != (tt.back == 0) || job.State == api.JobNeverRan {
					t.Errorf("%+v", job)
				}
			})
		})
	}
}

// TestMissingYoungJob: a young job that is not known is asked for again.
func TestMissingYoungJob(t *testing.T) {
	watchCluster(t, func(t *testing.T, c *cluster, w *Watcher) {
		late := w.Watch("7")
		defer late.Close()
		time.Sleep(30 * time.Second)
		if job := late.Job(); job.State.Ended() {
			t.Fatalf("gone at the first answer: %+v", job)
		}
		c.set(api.Job{ID: "7", Name: "nb", State: api.JobQueued, Submitted: time.Now()})
		time.Sleep(3 * time.Minute)
		if job := late.Job(); job.State != api.JobQueued {
			t.Errorf("it was there after all: %+v", job)
		}

		began := time.Now()
		never := w.Watch("8")
		defer never.Close()
		for job := range never.C() {
			if job.State.Ended() {
				break
			}
		}
		if took, job := time.Since(began), never.Job(); job.State != api.JobNeverRan || took < Grace || took > 2*Grace {
			t.Errorf("%+v after %s", job, took)
		}
	})
}

// noise is what start-up files, modules and wrappers of real sites do.
const noise = `echo "Loading compiler/2024"; echo "  JOBID PARTITION"; echo "module: nothing to unload" >&2
export LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 SQUEUE_FORMAT="%i" SLURM_TIME_FORMAT=relative SQUEUE_PRIORITY=1
if command -v shopt >/dev/null; then shopt -s expand_aliases; fi
alias squeue='squeue -o %i'
alias sbatch='sbatch -v'
alias scontrol='echo'
squeue() { echo "a function of yours"; }
`

// TestSlurmNoise: noise, wrappers, aliases and locales change nothing.
func TestSlurmNoise(t *testing.T) {
	for name, words := range jobtest.LoginShells() {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			m.Shell = words
			queueOf(t, m)
			m.Write(t, ".profile", m.PathLine()+noise)
			m.Write(t, ".bash_profile", m.PathLine()+noise)
			m.Write(t, "records", listed("7", "N/A", "N/A", "RUNNING", "lyra01", "lab", "nb"))
			m.Program(t, "squeue", `echo "*** maintenance on Monday ***"; echo "see https://example.org"
printf '%s %s %s\n' "$LC_ALL" "${SQUEUE_FORMAT-unset}" "$SLURM_TIME_FORMAT" >"$HOME/env"
cat "$HOME/records"; echo "Your quota: 80 %"`)
			m.Program(t, "sbatch", `echo "Checking your quota: fine"; echo "Submitted batch job 7"; echo; echo "Have a nice day"; echo "sbatch: using partition p" >&2`)
			m.Write(t, "job.7", "*** maintenance on Monday ***\n"+jobtest.ScontrolText()+"\nYour quota: 80 %\n")
			w := slurmWatcher(m)
			jobs, err := w.Jobs(t.Context())
			if err != nil || len(jobs) != 1 || jobs[0].ID != "7" || jobs[0].Node != "lyra01" || jobs[0].Name != "nb" {
				t.Errorf("%+v, %v", jobs, err)
			}
			if env := m.Read(t, "env"); env != "C unset %s\n" {
				t.Errorf("squeue was asked with %q", env)
			}
			job, err := w.Submit(t.Context(), Submission{Tag: "t", Content: []byte("#!/bin/sh\n"), Base: "x.sh"})
			if err != nil || job.ID != "7" || job.Log != "/home/mira/slurm-7.out" {
				t.Errorf("%+v, %v", job, err)
			}
		})
	}
}

// TestOwnsProcess: a server is the job's own or is not said to be.
func TestOwnsProcess(t *testing.T) {
	job := api.Job{ID: "7", State: api.JobRunning, Node: "lyra01"}
	alone := listed("7", "N/A", "N/A", "RUNNING", "lyra01", "lab", "nb")
	beside := alone + listed("8", "N/A", "N/A", "RUNNING", "lyra01", "lab", "nb")
	apart := alone + listed("8", "N/A", "N/A", "RUNNING", "lyra02", "lab", "nb")
	const (
		processes = `case "$*" in *"-j 7"*) printf '7.batch|lyra01|100,101\n7.0|lyra01|102\n' ;; *) printf '8.batch|lyra01|200\n' ;; esac`
		nothing   = "echo 'sstat: error: No steps running for job 7' >&2"
		env       = `case "$*" in *"-- lyra01 "*/proc/101/*) echo SLURM_JOB_ID=7 ;; */proc/200/*) echo SLURM_JOB_ID=8 ;; *) exit 255 ;; esac`
		closed    = "exit 255"
	)
	for name, c := range map[string]struct {
		queue, sstat, ssh string
		pid               int
		want              bool
		err               error
	}{
		"the only job":                         {alone, nothing, closed, 200, true, nil},
		"its process by the scheduler":         {beside, processes, closed, 102, true, nil},
		"another's by the node":                {beside, processes, env, 200, false, nil},
		"its process by the node":              {beside, nothing, env, 101, true, nil},
		"nobody can tell":                      {beside, nothing, closed, 101, false, joblog.ErrOwnerUnknown},
		"the other job is on another node":     {apart, nothing, closed, 101, true, nil},
		"a process of its own on another node": {apart, processes, closed, 100, true, nil},
	} {
		m := jobtest.NewMachine(t)
		queueOf(t, m)
		m.Write(t, "queue", c.queue)
		m.Program(t, "sstat", c.sstat)
		m.Program(t, "ssh", c.ssh)
		got, err := slurmWatcher(m).OwnsProcess(t.Context(), job, c.pid)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, err, c.want, c.err)
		}
		if _, err := os.Stat(filepath.Join(m.Home, "asked.sstat")); err == nil && c.queue == alone {
			t.Errorf("%s: the scheduler was asked for nothing", name)
		}
	}
}
