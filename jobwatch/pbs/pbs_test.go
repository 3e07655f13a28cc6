package pbs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/lists"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

func TestOnlyAJobWithSeveralNodesListsThem(t *testing.T) {
	for hosts, want := range map[string]string{
		"":                               "",
		"cn01/0*4":                       "",
		"cn01/0+cn01/1":                  "",
		"cn01/0*4+cn02/0*4":              "cn01,cn02",
		"nid1.hpc/1*8+nid2.hpc/1+nid2/2": "nid1.hpc,nid2.hpc,nid2",
	} {
		if got := nodeList(hosts); got != want {
			t.Errorf("exec_host %q: %q, want %q", hosts, got, want)
		}
	}
	for list, want := range map[string]string{"cn01": "", "(null)": "", "None assigned": "", "cn[01-02]": "cn[01-02]", "cn01,gpu2": "cn01,gpu2"} {
		if got := sched.SeveralNodes(list); got != want {
			t.Errorf("NodeList %q: %q, want %q", list, got, want)
		}
	}
}

const qstatRunning = `Job Id: 1234.pbs101
    Job_Name = jupyterlab
    Job_Owner = alice@login-ntu-01
    job_state = R
    queue = g1
    server = pbs101
    ctime = Sun Nov 15 00:13:40 2026
    Error_Path = login-ntu-01:/home/users/alice/work/jupyterlab.e1234
    exec_host = x1000c0s2b0n0/0*16+x1000c0s2b0n1/0*16
    Join_Path = oe
    Keep_Files = n
    Output_Path = login-ntu-01:/home/users/alice/work/jupyterlab.o1234
    Resource_List.walltime = 02:00:00
    stime = Sun Nov 15 00:13:42 2026
    substate = 42
    Variable_List = PBS_O_HOME=/home/users/alice,PBS_O_LANG=C.UTF-8,
	PBS_O_LOGNAME=alice,PBS_O_WORKDIR=/home/users/alice/work,A_NL=line1
line2,B=x
    job_state = F
	,PBS_O_QUEUE=normal
    comment = Job run at Sun Nov 15 at 00:13 on (x1000c0s2b0n0:ncpus=16:mem=3355
	4432kb)
    run_count = 2
    Submit_arguments = -P personal jupyter_pytorc
	h.sh
    project = personal

`

func parseQstat(out string) []api.Job { return lists.Map(splitQstat(out), record.job) }

func TestQstatIsReadWithFoldedLinesAndAWildEnvironment(t *testing.T) {
	jobs := parseQstat(qstatRunning)
	start := time.Date(2026, 11, 15, 0, 13, 42, 0, time.UTC)
	want := []api.Job{{
		ID: "1234.pbs101", Name: "jupyterlab", State: api.JobRunning, Node: "x1000c0s2b0n0", Nodes: "x1000c0s2b0n0,x1000c0s2b0n1", Queue: "g1", Restarts: 1,
		Submitted: start.Add(-2 * time.Second), Start: start, End: start.Add(2 * time.Hour), Script: "/home/users/alice/work/jupyter_pytorch.sh", Limit: 7200,
	}}
	if !reflect.DeepEqual(jobs, want) {
		t.Errorf("got  %+v\nwant %+v", jobs, want)
	}
}

func TestRecordAsks(t *testing.T) {
	jobs := parseQstat("Job Id: 7.pbs\n    job_state = Q\n    Resource_List.mem = 8gb\n    Resource_List.select = 1:ncpus=4\n    Resource_List.walltime = 36:00:00\n")
	if len(jobs) != 1 || jobs[0].Limit != 36*3600 || jobs[0].Asks != "select=1:ncpus=4 mem=8gb" {
		t.Errorf("%+v", jobs)
	}
}

func TestHowAPBSJobEnded(t *testing.T) {
	for _, c := range []struct {
		name, state, attributes string
		want                    api.JobState
		exit                    int
	}{
		{"done", "F", "Exit_status = 0\n    substate = 92", api.JobFinished, 0},
		{"failed", "F", "Exit_status = 3\n    substate = 93", api.JobFailed, 3},
		{"deleted while running", "F", "Exit_status = 271\n    substate = 91", api.JobCancelled, 143},
		{"walltime used up", "F", "Exit_status = 271\n    substate = 93\n    Resource_List.walltime = 01:00:00\n    resources_used.walltime = 01:00:04", api.JobTimeout, 143},
		{"deleted early", "F", "Exit_status = 271\n    Resource_List.walltime = 01:00:00\n    resources_used.walltime = 00:59:00", api.JobCancelled, 143},
		{"Torque's end", "C", "exit_status = 0", api.JobFinished, 0},
		{"Torque's walltime", "C", "exit_status = -11\n    start_time = Mon Mar  2 08:00:00 2026", api.JobTimeout, -1},
		{"Torque's memory", "C", "exit_status = -10\n    start_time = Mon Mar  2 08:00:00 2026", api.JobOOM, -1},
		{"Torque's lost dependency", "C", "exit_status = 271\n    comment = Job 1.s deleted because its dependency of job 0.s can never be satisfied", api.JobNeverRan, -1},
		{"no queue took it", "F", "comment = Job rejected by all possible destinations", api.JobNeverRan, -1},
		{"a table's end", "F", "comment = Job run at Mon Mar 02 at 08:00 on (e1:ncpus=1) and finished", api.JobFinished, -1},
		{"a table's failure", "F", "comment = Job run at Mon Mar 02 at 08:00 on (e1:ncpus=1) and failed", api.JobFailed, -1},
		{"a table's walltime", "F", "comment = Job run at Mon Mar 02 at 08:00 on (e1:ncpus=1) and exceeded resource walltime", api.JobTimeout, -1},
		{"a table's memory", "F", "comment = Job run at Mon Mar 02 at 08:00 on (e1:ncpus=1) and exceeded resource mem", api.JobOOM, -1},
		{"a table's cancel", "F", "comment = Job run at Mon Mar 02 at 08:00 on (e1:ncpus=1) and terminated by mira@login1", api.JobCancelled, -1},
		{"deleted and still there", "R", "substate = 42\n    comment = Job run at Mon Mar 02 at 08:00 on (e1:ncpus=1) and terminated by mira@login1", api.JobCompleting, -1},
		{"suspended", "S", "substate = 43", api.JobRunning, -1},
		{"walltime", "F", "Exit_status = -29\n    substate = 93", api.JobTimeout, -1},
		{"memory", "F", "Exit_status = -27\n    substate = 93", api.JobOOM, -1},
		{"deleted in the queue", "F", "substate = 91\n    comment = Not Running: Queue not started. and terminated", api.JobCancelled, -1},
		{"dependency failed", "F", "substate = 92\n    depend = afterok:2.s@s", api.JobNeverRan, -1},
		{"killed", "F", "Exit_status = 137\n    substate = 93", api.JobFailed, 137},
		{"task of an array", "X", "substate = 92", api.JobFinished, -1},
		{"exiting", "E", "Exit_status = 3", api.JobCompleting, -1},
		{"array begun", "B", "substate = 70", api.JobRunning, -1},
		{"held", "H", "Hold_Types = u", api.JobHeld, -1},
		{"waiting", "W", "substate = 30", api.JobQueued, -1},
	} {
		jobs := parseQstat("Job Id: 1.s\n    Job_Name = x\n    job_state = " + c.state + "\n    " + c.attributes + "\n")
		if len(jobs) != 1 || jobs[0].State != c.want {
			t.Errorf("%s: got %+v", c.name, jobs)
			continue
		}
		if exit := jobs[0].Exit; (exit == nil) != (c.exit < 0) || exit != nil && *exit != c.exit {
			t.Errorf("%s: exit %v, want %d", c.name, exit, c.exit)
		}
		if strings.Contains(jobs[0].Reason, "Not Running") {
			t.Errorf("%s: the reason is still %q", c.name, jobs[0].Reason)
		}
	}
}

func TestTheMemoryThatAPBSJobRanOutOfIsThatOfOneChunk(t *testing.T) {
	for attributes, want := range map[string]int64{
		"Exit_status = -27\n    Resource_List.mem = 50mb\n    Resource_List.nodect = 1\n    resources_used.mem = 321204kb": 321204 << 10, // PBS looks now and then
		"Exit_status = -27\n    Resource_List.mem = 8gb\n    Resource_List.nodect = 2":                                     4 << 30,
		"Exit_status = -26\n    Resource_List.mem = 8gb\n    Resource_List.vmem = 9gb":                                     0,
	} {
		if jobs := parseQstat("Job Id: 1.s\n    job_state = F\n    " + attributes + "\n"); len(jobs) != 1 || jobs[0].Memory != want {
			t.Errorf("%s: got %+v, want %d bytes", attributes, jobs, want)
		}
	}
}

func TestPBSReasonsInWords(t *testing.T) {
	for comment, want := range map[string]string{
		"Not Running: Insufficient amount of resource: ncpus (R: 8 A: 7 T: 8)":           "waiting for free nodes",
		"Can Never Run: Insufficient amount of resource: ncpus (R: 100 A: 8 T: 8)":       api.HintNeverStarts + ": no node has the requested resources: ask for less",
		"Not Running: Insufficient amount of server resource: matlab (R: 1 A: 0 T: 4)":   "a resource of the whole server, such as a licence, is in use",
		"Can Never Run: Insufficient amount of server resource: matlab (R: 9 A: 0 T: 4)": api.HintNeverStarts + ": it asks for more of a resource than the whole server has: ask for less",
		"Not Running: User has reached queue normal running job limit.":                  ownLimit,
		"Not Running: Group has reached server running limit.":                           groupLimit,
		"Not Running: Project has reached queue gpu's running limit.":                    projectLimit,
		"Not Running: would exceed user mira's limit on resource ngpus in complex":       ownLimit,
		"Not Running: would exceed project p1's limit on resource ncpus in queue normal": projectLimit,
		"Not Running: would exceed overall limit on resource ngpus in queue gpu":         "the queue or the server has reached its limit of all users",
		"Not Running: Server per-group limit reached on resource ncpus":                  groupLimit,
		"Not Running: Queue gpu job limit reached for user mira":                         ownLimit,
		"Not Running: Queue gpu job limit has been reached.":                             "the queue has reached its limit of running jobs",
		"Not Running: Server job limit has been reached.":                                "the server has reached its limit of running jobs",
		"Not Running: Job would conflict with reservation or top job":                    topJob,
		"Not Running: Job would interfere with a confirmed reservation":                  topJob,
		"Not Running: switch set r1i2 has too few free resources":                        "waiting for free nodes that belong together",
		"Can Never Run: can't fit in the largest placement set, and can't span psets":    api.HintNeverStarts + ": no group of nodes that belong together is large enough: ask for fewer nodes",
		"Not Running: Node is in an ineligible state: offline":                           "waiting for nodes; some are down or offline",
		"Not Running: Not enough of the right type of nodes are available":               "waiting for free nodes",
		"Not Running: Job would cross dedicated time boundary":                           "a maintenance is coming: a shorter walltime may fit before it",
		"Not Running: Dedicated time conflict":                                           "a maintenance is coming: a shorter walltime may fit before it",
		"Not Running: Job will run in nonprimetime only":                                 certainHours,
		"Not Running: Job would break strict sorted order":                               "jobs before it in the queue start first",
		"Not Running: Job is requesting an exclusive node and node is in use":            "waiting for a free node that is not shared",
		"Can Never Run: Specified host does not exist: e99":                              api.HintNeverStarts + ": the job names a node or host that does not exist: change its select",
		"Can Never Run: a rule of tomorrow":                                              api.HintNeverStarts + ": no node has the requested resources: ask for less",
		"Not Running: PBS Error: execution server rejected request":                      "PBS could not start the job, and tries again; if this stays, ask the site",
		"Not Running: Cannot provision, provisioning disabled on server":                 "", // PBS's own words are shown
		"Not Running: Queue not started.":                                                "the queue starts no jobs now",
	} {
		if got := reasonFor(comment).Hint(); got != want {
			t.Errorf("%q: %q", comment, got)
		}
	}
}

func TestAPBSJobIsFoundByItsNumberAndAnArrayByItsTasks(t *testing.T) {
	for _, c := range []struct {
		job, id string
		want    bool
	}{
		{"12.vm", "12.vm", true},
		{"12.vm", "12", true},
		{"12.vm", "1", false},
		{"12.vm", "12.other", false},
		{"28[1].vm", "28[].vm", true},
		{"28[1].vm", "28[]", true},
		{"28[].vm", "28[].vm", true},
		{"281[1].vm", "28[].vm", false},
	} {
		if got := (scheduler{}).Matches(api.Job{ID: c.job}, c.id); got != c.want {
			t.Errorf("%s is %s: %v", c.job, c.id, got)
		}
	}
}

func TestThePBSLogIsWhereTheScriptSendsIt(t *testing.T) {
	r := splitQstat(qstatRunning)[0]
	for script, want := range map[string]string{
		"singularity run x.sif jupyter lab >> ${PBS_JOBNAME}.${PBS_JOBID}.log 2>&1":     "/home/users/alice/work/jupyterlab.1234.pbs101.log",
		`exec > "$HOME/logs/$PBS_JOBID.out" 2>&1`:                                       "/home/users/alice/logs/1234.pbs101.out",
		`python x.py &>${PBS_O_WORKDIR}/run-${PBS_JOBID%%.*}.txt`:                       "/home/users/alice/work/run-1234.txt",
		"# old: x > $PBS_JOBID.log\necho hi > /dev/null 2>&1\necho $PBS_JOBID > $TMP/x": "",
		"x > $(hostname).$PBS_JOBID.log":                                                "",
	} {
		own, _ := sched.RedirectedLogs(script, "", "PBS_JOB", r.variables())
		if got := r.absolute(own); got != want {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
}

func TestThePBSOutputIsFoundWithAndWithoutAHost(t *testing.T) {
	for given, want := range map[string]string{
		"login1:/home/mira/a.o7":                "/home/mira/a.o7",
		"/home/mira/a.o7":                       "/home/mira/a.o7",
		"/data/run at 10:30/a.o7":               "/data/run at 10:30/a.o7",
		"login1.example.org:/data/10:30/x.o7":   "/data/10:30/x.o7",
		"login1:/home/mira/a.o40.^array_index^": "/home/mira/a.o40.3",
	} {
		r := record{"Output_Path": given, "array_index": "3", "Keep_Files": "oed"}
		if got, readable := r.output(api.Job{State: api.JobRunning}); got != want || !readable {
			t.Errorf("%q: %q, %v; want %q", given, got, readable, want)
		}
	}
}

func TestTheScriptOfAPBSJobIsTheWordThatIsNoOption(t *testing.T) {
	for args, want := range map[string]string{
		"job.sh":                                    "/home/mira/work/job.sh",
		"-P personal -l select=1:ncpus=2 job.sh":    "/home/mira/work/job.sh",
		"-W depend=afterany:7 /data/job.sh":         "/data/job.sh",
		"-r n -S /bin/bash -m n":                    "",
		"-N name -":                                 "",
		"-I -l walltime=1:00:00":                    "",
		"-N x -- /bin/sleep 20":                     "",
		"-koed /home/mira/.tunctl/tag/my script.sh": "/home/mira/.tunctl/tag/my script.sh",
		"-V -h -z job.sh":                           "/home/mira/work/job.sh",
	} {
		r := record{"Submit_arguments": args, "Variable_List": "PBS_O_HOME=/home/mira,PBS_O_WORKDIR=/home/mira/work"}
		if got := r.job().Script; got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

func TestAHeldJobSaysWhoReleasesIt(t *testing.T) {
	for types, want := range map[string]string{"u": "held by you: release it with qrls", "s": "held by an administrator or the scheduler: ask the site"} {
		r := record{"Job Id": "7.srv", "job_state": "H", "Hold_Types": types}
		if job := r.job(); job.State != api.JobHeld || job.Hint != want {
			t.Errorf("%s: %s, %q", types, job.State, job.Hint)
		}
	}
}

func TestARunningJobWithoutAStartHasAnEnd(t *testing.T) {
	r := record{"Job Id": "7.srv", "job_state": "R", "Resource_List.walltime": "02:00:00", "resources_used.walltime": "00:30:00"}
	const left = 90 * time.Minute
	earliest := time.Now().Add(left - time.Minute) // a start is known to the minute
	if end := r.job().End; end.Before(earliest) || end.After(time.Now().Add(left)) {
		t.Errorf("it ends at %s, not %s from now", end, left)
	}
}

func TestAJobThatItsRoutingQueueGaveUpSaysThatNoQueueAcceptsIt(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "samples", "pbs", "rejected-by-the-route.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if jobs := parseQstat(string(data)); len(jobs) != 1 || jobs[0].State != api.JobNeverRan || jobs[0].Hint != notRouted {
		t.Errorf("%+v", jobs)
	}
}

func TestDiscardedOutputIsNoLog(t *testing.T) {
	r := record{"Job Id": "7.srv", "job_state": "R", "Output_Path": "login1:/dev/null", "Keep_Files": "oed"}
	if file, readable := r.output(r.job()); file != "" || !readable {
		t.Errorf("%q, %v", file, readable)
	}
}

func FuzzQstat(f *testing.F) {
	f.Add("Job Id: 1.s\n    Job_Name = x\n    job_state = R\n    exec_host = n/0\n    Variable_List = PBS_O_WORKDIR=/w,\n\tA=b\n")
	f.Fuzz(func(t *testing.T, s string) {
		if jobs := parseQstat(s); len(jobs) > len(s) {
			t.Fatal("more jobs than bytes")
		}
		for _, r := range splitQstat(s) {
			sched.RedirectedLogs(s, "", "PBS_JOB", r.variables())
			r.script()
		}
	})
}

func TestTheUseOfAnArrayIsThatOfItsFirstTask(t *testing.T) {
	p := newScheduler()
	p.keepUsage([]record{
		{"Job Id": "22[1].pbs9", "array_id": "22[].pbs9", "job_state": "R", "resources_used.cput": "00:11:00"},
		{"Job Id": "22[2].pbs9", "array_id": "22[].pbs9", "job_state": "R", "resources_used.cput": "00:22:00"},
	})
	for id, want := range map[string]time.Duration{"22[].pbs9": 11 * time.Minute, "22[2].pbs9": 22 * time.Minute} {
		if u, err := p.Usage(t.Context(), nil, id, 0); err != nil || u.CPU != want {
			t.Errorf("%s: %+v, %v", id, u, err)
		}
	}
}

func TestTable(t *testing.T) {
	t.Run("a start is by the clock of the host", func(t *testing.T) {
		m := jobtest.NewMachine(t)
		m.Program(t, "date", "echo 4102444800\n") // the year 2100
		m.Program(t, "qstat", `cat <<'END'
pbs01:
                                                            Req'd  Req'd   Elap
Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time
--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----
101.pbs01       alice    normal   nb           4711   1   1    --  02:00 R 00:10
END
`)
		jobs, err := newScheduler().List(t.Context(), remote.On(m))
		if err != nil || len(jobs) != 1 || jobs[0].Start.Year() < 2099 || jobs[0].End.Sub(jobs[0].Start) != 2*time.Hour {
			t.Errorf("%v, %v", jobs, err)
		}
	})
}
