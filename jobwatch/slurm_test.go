package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/sched"
)

// parseScontrol reads the output of scontrol show job.
func parseScontrol(out string) []api.Job {
	var jobs []api.Job
	for _, r := range splitScontrol(out) {
		jobs = append(jobs, r.job())
	}
	return jobs
}

// squeueRecord is a line as squeue prints it for our format.
func squeueRecord(fields ...string) string { return strings.Join(fields, fieldEnd) + recordEnd }

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func TestSqueueIsReadWhateverAJobIsCalled(t *testing.T) {
	out := "CLUSTER: north\n" +
		squeueRecord("101", "N/A", "N/A", "RUNNING", "gpu", "cn[07-08,10],gpu3", "1794702600", "1794702650", "1794706250", "2", "None", "/home/u/.tunctl/t1/a b.sh", "/home/u/%x.%j.log", "1", "u", "n/a", "north", "my|job\n\"x\" State=FAILED") +
		squeueRecord("102", "N/A", "N/A", "PENDING", "cpu", "", "1794702600", "1794709999", "N/A", "0", "Resources", "(null)", "/home/u/%u-%4j.%N.out", "1", "u", "n/a", "north", "waits") +
		squeueRecord("103", "N/A", "N/A", "PENDING", "cpu", "", "2026-11-15T00:30:00", "N/A", "N/A", "0", "PartitionTimeLimit", "(null)", "/home/u/slurm-103.out", "0", "u", "n/a", "north", "never") +
		squeueRecord("104", "N/A", "N/A", "PENDING", "cpu", "", "1794702600", "N/A", "N/A", "0", "JobHeldUser", "(null)", "/home/u/%4j/100%%.out", "1", "u", "n/a", "north", "held") +
		squeueRecord("107", "105", "1", "RUNNING", "cpu", "cn02", "1794702600", "1794702650", "NONE", "0", "None", "(null)", "/home/u/slurm-107.out", "1", "u", "n/a", "north", "arr") +
		squeueRecord("105", "105", "2-5%2", "PENDING", "cpu", "", "1794702600", "N/A", "N/A", "0", "JobArrayTaskLimit", "(null)", "/home/u/slurm-105.out", "1", "u", "n/a", "north", "arr") +
		squeueRecord("108", "N/A", "N/A", "SUSPENDED", "cpu", "cn02", "1794702600", "1794702650", "1794706250", "0", "None", "(null)", "/dev/null", "1", "u", "n/a", "north", "susp") +
		"a line from nowhere\n"
	want := []api.Job{
		{
			ID: "101", Name: "my|job\n\"x\" State=FAILED", State: api.JobRunning, Node: "cn07", Nodes: "cn[07-08,10],gpu3", Queue: "gpu",
			Submitted: at(1794702600), Start: at(1794702650), End: at(1794706250), Restarts: 2, Script: "/home/u/.tunctl/t1/a b.sh",
			Log: "/home/u/my|job\n\"x\" State=FAILED.101.log",
		},
		{
			ID: "102", Name: "waits", State: api.JobQueued, Reason: "Resources", Hint: "waiting for free nodes", Queue: "cpu",
			Submitted: at(1794702600), ExpectedStart: at(1794709999),
		},
		{
			ID: "103", Name: "never", State: api.JobQueued, Reason: "PartitionTimeLimit", Queue: "cpu", Submitted: time.Date(2026, 11, 15, 0, 30, 0, 0, time.UTC),
			Hint: "the job will never start as submitted: it asks for more time than the partition allows: lower --time, or change --partition",
		},
		{
			ID: "104", Name: "held", State: api.JobHeld, Reason: "JobHeldUser", Queue: "cpu", Submitted: at(1794702600), Log: "/home/u/0104/100%.out",
			Hint: "held by you: release it with scontrol release",
		},
		{ID: "105_1", Name: "arr", State: api.JobRunning, Node: "cn02", Queue: "cpu", Submitted: at(1794702600), Start: at(1794702650), Log: "/home/u/slurm-105_1.out"},
		{
			ID: "105_[2-5%2]", Name: "arr", State: api.JobQueued, Reason: "JobArrayTaskLimit", Queue: "cpu", Submitted: at(1794702600),
			Hint: "the array has reached its limit of simultaneous tasks",
		},
		{
			ID: "108", Name: "susp", State: api.JobRunning, Reason: "SUSPENDED", Node: "cn02", Queue: "cpu", Submitted: at(1794702600),
			Start: at(1794702650), End: at(1794706250), Hint: "the job is suspended by the scheduler or an administrator: nothing responds until it is resumed",
		},
	}
	got := parseSqueue(out)
	for i := range max(len(got), len(want)) {
		if i < len(want) {
			want[i].Cluster = "north"
		}
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("job %d:\n got %+v\nwant %+v", i, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
	if job, ok := sched.Pick(slurm{}, got, "105"); !ok || job.ID != "105_1" {
		t.Errorf("of the array, %q serves", job.ID)
	}
}

func TestScontrolIsReadWhateverAJobIsCalled(t *testing.T) {
	const rest = " UserId=u(2001) GroupId=g(2001) MCS_label=N/A Priority=1 Nice=0 Account=p QOS=normal JobState=%STATE% Reason=None Dependency=(null)" +
		" Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:9 SubmitTime=1794702600 EligibleTime=1794702600 StartTime=1794702650 EndTime=1794706250" +
		" Partition=gpu AllocNode:Sid=login1:907 ReqNodeList=(null) ExcNodeList=(null) NodeList=cn01 BatchHost=cn01 TRES=cpu=1,mem=200M" +
		" Features=(null) Network=(null) Command=/home/u/.tunctl/t 1/job.sh WorkDir=/home/u/NodeList=evil StdErr=/home/u/a b.err StdIn=/dev/null StdOut=/home/u/a b.42.log Power= \n"
	out := "JobId=42 JobName=JobState=FAILED NodeList=evil UserId=x(1) y" + strings.Replace(rest, "%STATE%", "RUNNING", 1) +
		"JobId=43 ArrayJobId=40 ArrayTaskId=3 JobName=plain" + strings.Replace(rest, "%STATE%", "FAILED", 1)
	jobs := parseScontrol(out)
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	want := api.Job{
		ID: "42", Name: "JobState=FAILED NodeList=evil UserId=x(1) y", State: api.JobRunning, Node: "cn01", Queue: "gpu", Restarts: 1,
		Submitted: at(1794702600), Start: at(1794702650), End: at(1794706250), Log: "/home/u/a b.42.log",
		OtherLogs: []string{"/home/u/a b.err"}, Script: "/home/u/.tunctl/t 1/job.sh",
	}
	if !reflect.DeepEqual(jobs[0], want) {
		t.Errorf("got  %+v\nwant %+v", jobs[0], want)
	}
	if j := jobs[1]; j.ID != "40_3" || j.State != api.JobFailed || j.Exit == nil || *j.Exit != 137 || !strings.Contains(j.Hint, "memory") {
		t.Errorf("got %+v", j)
	}
}

func TestSacctIsReadWithPipesInTheName(t *testing.T) {
	jobs := parseSacct("7|CANCELLED by 2001|0:15|1794702600|1794702650|1794702700|cn01|gpu|a|b\n8|COMPLETED|0:0|1794702600|1794702650|1794702700|None assigned|cpu|ok\nshort|line\n")
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	if j := jobs[0]; j.State != api.JobCancelled || j.Name != "a|b" || j.Reason != "CANCELLED by 2001" || j.End != at(1794702700) || *j.Exit != 143 {
		t.Errorf("got %+v", j)
	}
	if j := jobs[1]; j.State != api.JobFinished || j.Node != "" || *j.Exit != 0 {
		t.Errorf("got %+v", j)
	}
}

func TestAJobWithoutANodeNeverStarted(t *testing.T) {
	for program, jobs := range map[string][]api.Job{
		"sacct":    parseSacct("9|CANCELLED by 2001|0:0|1794702600|1794702700|1794702700|None assigned|cpu|x\n"),
		"scontrol": parseScontrol("JobId=9 JobName=x\n   UserId=u(2001) GroupId=g(2001)\n   JobState=CANCELLED Reason=None\n   SubmitTime=1794702600\n   StartTime=1794702700 EndTime=1794702700\n   NodeList=\n"),
	} {
		if len(jobs) != 1 || jobs[0].State != api.JobCancelled || !jobs[0].Start.IsZero() || jobs[0].End != at(1794702700) {
			t.Errorf("%s: %+v", program, jobs)
		}
	}
}

func TestReasonsThatWaitingDoesNotCureAreCalledOut(t *testing.T) {
	for word, never := range map[string]bool{
		"Resources": false, "Priority": false, "BeginTime": false, "QOSMaxJobsPerUserLimit": false, "AssocGrpCpuLimit": false, "AssocGrpGRES": false,
		"ReqNodeNotAvail, UnavailableNodes:cn02": false, "ReqNodeNotAvail,_Reserved_for_maintenance": false,
		"PartitionConfig": true, "AssocGrpBillingMinutes": true, "AssocGrpCPUMinutesLimit": true, "DependencyNeverSatisfied": true,
		"QOSMaxWallDurationPerJobLimit": true, "QOSMaxCpuPerJobLimit": true, "QOSMinGRES": true, "QOSMaxCpuMinutesPerJobLimit": true, "MaxMemPerLimit": true,
		"AssocGrpCPURunMinutesLimit": false, "AssocGrpBillingRunMinutes": false, "QOSGrpCPURunMinutesLimit": false, // they pass as jobs end
		"BadConstraints": false, "PartitionNodeLimit": false, // drained nodes cause these too
		"QOSUsageThreshold": false, "MaxCpuPerAccount": false, "MaxGRESPerAccount": false, "AccountingPolicy": false,
		"Job's_account_not_permitted_to_use_this_partition_(staff_allows_staff_not_proj1)": true,
	} {
		r := slurmReason(word)
		if r.Words == "" || r.Never != never || strings.HasPrefix(r.Hint(), "the job will never start as submitted") != never {
			t.Errorf("%s: %+v", word, r)
		}
	}
	if hint := slurmReason("SomethingNew").Hint(); hint != "" {
		t.Errorf("an unknown reason became %q", hint)
	}
}

// slurmSampleJob is the only job of a sample.
func slurmSampleJob(t *testing.T, name string) api.Job {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "samples", "slurm", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	jobs := parseScontrol(string(parseCapture(name, data).res.Stdout))
	if len(jobs) != 1 {
		t.Fatalf("%s has %d jobs", name, len(jobs))
	}
	return jobs[0]
}

func TestAJobThatMayStartIsNotSaidToNeverStart(t *testing.T) {
	for name, want := range map[string]string{
		"several-partitions":              "the job may start in another of its partitions; in one, it asks for more time",
		"forecast-in-spite-of-the-reason": "Slurm expects to start the job, although it says: it asks for more time",
	} {
		if job := slurmSampleJob(t, name); !strings.HasPrefix(job.Hint, want) || job.State != api.JobQueued {
			t.Errorf("%s: %s, %q", name, job.State, job.Hint)
		}
	}
}

func TestAJobThatAnotherClusterRunsIsNotCancelled(t *testing.T) {
	if job := slurmSampleJob(t, "revoked-at-the-origin"); job.State.Ended() || !strings.HasPrefix(job.Hint, "cluster south of the federation runs the job") {
		t.Errorf("%s, %q", job.State, job.Hint)
	}
	if jobs := parseSacct("7|REVOKED|0:0|1794702600|1794702650|1794702700|None assigned|gpu|nb\n"); jobs[0].State.Ended() {
		t.Errorf("the accounting's record is %s", jobs[0].State)
	}
}

func TestASlurmThatIsTooOldIsNamed(t *testing.T) {
	m := jobtest.NewMachine(t)
	jobtest.FakeSlurm(t, m)
	m.Write(t, "squeue.fails", "squeue: unrecognized option '--me'\nTry \"squeue --help\" for more information\n")
	if _, err := slurmWatcher(m).Jobs(t.Context()); err == nil || !strings.Contains(err.Error(), "older than 20.02") {
		t.Error(err)
	}
}

func TestAJobWithoutItsEnvironmentIsHeld(t *testing.T) {
	if job := slurmSampleJob(t, "held-without-environment"); job.State != api.JobHeld || !strings.Contains(job.Hint, ".bashrc") {
		t.Errorf("%s, %q", job.State, job.Hint)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("JobId=1 JobName=x UserId=u(1) GroupId=g(1) MCS_label=N/A JobState=RUNNING Reason=None ExitCode=0:0 Command=/a WorkDir=/b StdOut=/c Power=")
	f.Add(squeueRecord("1", "N/A", "N/A", "RUNNING", "p", "cn[1-2]", "1", "2", "3", "0", "None", "(null)", "/o/%5j", "1", "u", "n/a", "north", "n"))
	f.Add("Job Id: 1.s\n    Job_Name = x\n    job_state = R\n    exec_host = n/0\n    Variable_List = PBS_O_WORKDIR=/w,\n\tA=b\n")
	f.Add("1|FAILED|1:0|1|2|3|cn01|p|name")
	f.Fuzz(func(t *testing.T, s string) {
		for _, jobs := range [][]api.Job{parseScontrol(s), parseSqueue(s), parseSacct(s), parseQstat(s)} {
			if len(jobs) > len(s) {
				t.Fatal("more jobs than bytes")
			}
		}
		for _, r := range splitQstat(s) {
			sched.RedirectedLogs(s, "", "PBS_JOB", r.variables())
			r.script()
		}
		for _, r := range splitScontrol(s) {
			sched.RedirectedLogs(s, "", "SLURM_JOB", r.variables())
		}
		firstNode(s)
		sched.ParseClockTime(s)
		sections(s, "mark")
	})
}

// scontrolText is a record in the form with several lines; the other fields are those of a
// running batch job.
func scontrolText(fields ...string) string {
	value := map[string]string{
		"JobId": "7", "JobName": "nb", "UserId": "mira(5101)", "GroupId": "domain users(513)", "JobState": "RUNNING", "Reason": "None", "BatchFlag": "1",
		"NodeList": "lyra07", "BatchHost": "lyra07.example.org", "Command": "/home/mira/run.sh", "WorkDir": "/home/mira", "StdErr": "", "StdOut": "/home/mira/slurm-7.out",
	}
	ids := ""
	for _, f := range fields {
		key, text, _ := strings.Cut(f, "=")
		value[key] = text
		if strings.HasPrefix(key, "Array") {
			ids += f + " "
		}
	}
	return strings.NewReplacer("@", "\n   ").Replace(fmt.Sprintf("JobId=%s %sJobName=%s@UserId=%s GroupId=%s MCS_label=N/A@JobState=%s Reason=%s Dependency=(null)"+
		"@Requeue=1 Restarts=0 BatchFlag=%s Reboot=0 ExitCode=0:0@NodeList=%s@BatchHost=%s@Command=%s@WorkDir=%s@StdErr=%s@StdIn=/dev/null@StdOut=%s@\n",
		value["JobId"], ids, value["JobName"], value["UserId"], value["GroupId"], value["JobState"], value["Reason"], value["BatchFlag"],
		value["NodeList"], value["BatchHost"], value["Command"], value["WorkDir"], value["StdErr"], value["StdOut"]))
}

func TestWhatScontrolLeavesToTheNodeIsFilledIn(t *testing.T) {
	for name, c := range map[string]struct {
		fields []string
		want   string
	}{
		"the node's patterns":        {[]string{"StdOut=/h/%J-%N-%t-%n-%s-%j.out"}, "/h/7-lyra07-0-0-batch-7.out"},
		"an array's task":            {[]string{"ArrayJobId=5", "ArrayTaskId=3", "StdOut=/h/%A_%a.out"}, "/h/5_3.out"},
		"a width":                    {[]string{"StdOut=/h/%4J.out"}, "/h/0007.out"},
		"the node is not known yet":  {[]string{"NodeList=", "BatchHost=", "StdOut=/h/%N.out"}, ""},
		"the rest of an array":       {[]string{"ArrayJobId=7", "ArrayTaskId=2-3%1", "StdOut=/h/arr-7_4294967294.out"}, ""},
		"a percent sign in the name": {[]string{"StdOut=/h/50%.out"}, "/h/50%.out"},
		"no file at all":             {[]string{"StdOut=/dev/null"}, ""},
	} {
		jobs := parseScontrol(scontrolText(c.fields...))
		if len(jobs) != 1 || jobs[0].Log != c.want || len(jobs[0].OtherLogs) != 0 {
			t.Errorf("%s: %+v, want the log %q", name, jobs, c.want)
		}
	}
}

func TestAPrologThatTakesLongIsShown(t *testing.T) {
	for _, job := range append(parseScontrol(scontrolText("Reason=Prolog")), parseSqueue(
		squeueRecord("7", "N/A", "N/A", "RUNNING", "p", "lyra07", "1", "2", "3", "0", "Prolog", "/h/run.sh", "/h/%j", "1", "u", "lyra07", "lab", "nb"))...) {
		if job.State != api.JobRunning || job.Reason != "Prolog" || !strings.Contains(job.Hint, "being prepared") {
			t.Errorf("%+v", job)
		}
	}
}

func TestTheScriptIsToldFromItsArguments(t *testing.T) {
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
		m.Write(t, "record", scontrolText("Command="+here.Replace(c.command), "WorkDir="+here.Replace(c.workdir)))
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
	return squeueRecord(id, array, task, state, "p", node, "1794702600", "1794702650", "N/A", "0", "None", "/h/run.sh", "/h/%j", "1", "u", node, cluster, name)
}

// serving runs the Watcher's Serve until the test ends.
func serving(t *testing.T, w *Watcher) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = w.Serve(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
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

func TestAnArrayIsFollowedFromTaskToTask(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	rest := func(tasks string) string { return listed("54", "54", tasks, "PENDING", "", "lab", "chain") }
	shown := func(id, task, state string) string {
		return scontrolText("JobId="+id, "ArrayJobId=54", "ArrayTaskId="+task, "JobName=chain", "JobState="+state, "NodeList=lyra01", "BatchHost=lyra01", "StdOut=/h/54_"+task+".out") + "\n"
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

func TestTheTasksOfAnArrayThatWaitAreFoundAsTheArray(t *testing.T) {
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

func TestAJobOnAnotherClusterIsAskedForThere(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	m.Program(t, "sbatch", `echo "4711;gpu"`)
	w := slurmWatcher(m)
	args := []string{"-M", "gpu"}
	m.Write(t, "queue", listed("4711", "N/A", "N/A", "RUNNING", "lyra01", "lab", "another"))
	m.Write(t, "queue.gpu", listed("4711", "N/A", "N/A", "RUNNING", "viper01", "gpu", "nb"))
	m.Write(t, "job.4711.gpu", scontrolText("JobId=4711", "NodeList=viper01", "BatchHost=viper01", "StdOut=/h/gpu.out"))
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

func TestClustersOfThePersonsEnvironmentAreTold(t *testing.T) {
	m := jobtest.NewMachine(t)
	queueOf(t, m)
	m.Write(t, ".profile", m.PathLine()+"export SLURM_CLUSTERS=gpu,cpu\n")
	m.Write(t, "queue", listed("7", "N/A", "N/A", "RUNNING", "viper01", "gpu", "nb"))
	jobs, err := slurmWatcher(m).Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].Ref() != "7;gpu" {
		t.Errorf("%+v, %v", jobs, err)
	}
}

func TestClustersAreReadFromSbatchsWords(t *testing.T) {
	for words, want := range map[string]string{
		"-M gpu": "gpu", "-Mgpu": "gpu", "--clusters=gpu,cpu": "cpu gpu", "--clusters gpu": "gpu", "--cluster=gpu": "gpu", "--mem=1G -p x": "", "-M": "", "-M all": "",
	} {
		s := newSlurm()
		added := s.AddClusters(strings.Fields(words))
		if got := strings.Join(s.otherClusters(), " "); got != want || added != (want != "") {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}

func TestAYoungJobThatWasSeenRunningIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(newCluster(), Options{Scheduler: Slurm})
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { _ = w.Serve(ctx) })
		defer done.Wait()
		defer cancel()

		began := time.Now()
		watch := w.Watch("7")
		defer watch.Close()
		watch.SeenRunning()
		for job := range watch.C() {
			if job.State.Ended() {
				break
			}
		}
		if took := time.Since(began); took > Grace/4 {
			t.Errorf("it was gone after %s", took)
		}
		if job := watch.Job(); job.State != api.JobFinished {
			t.Errorf("a job that ran is %q: %s", job.State, job.Hint)
		}
	})
}

func TestAYoungJobThatIsNotKnownIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		w := NewWatcher(c, Options{Scheduler: Slurm})
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { _ = w.Serve(ctx) })
		defer done.Wait()
		defer cancel()

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

		// A job that was known for long is gone at once.
		c.mu.Lock()
		delete(c.jobs, "7")
		c.order = nil
		c.mu.Unlock()
		gone := time.Now()
		for job := range late.C() {
			if job.State.Ended() {
				break
			}
		}
		if took := time.Since(gone); took > 90*time.Second {
			t.Errorf("it was believed after %s", took)
		}
	})
}

func TestOfSeveralJobsOfANameTheOneThatRunsIsTaken(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(1794702600, 0).Add(time.Duration(minutes) * time.Minute) }
	running := api.Job{ID: "1", Name: "nb", State: api.JobRunning, Node: "lyra01", Submitted: at(0)}
	configuring := api.Job{ID: "2", Name: "nb", State: api.JobConfiguring, Submitted: at(1)}
	queued := api.Job{ID: "3", Name: "nb", State: api.JobQueued, Submitted: at(2)}
	newer := api.Job{ID: "4", Name: "nb", State: api.JobQueued, Submitted: at(3)}
	held := api.Job{ID: "5", Name: "nb", State: api.JobHeld, Submitted: at(4)}
	for _, c := range []struct {
		jobs []api.Job
		want string
	}{
		{[]api.Job{held, newer, queued, configuring, running}, "1"},
		{[]api.Job{held, newer, queued, configuring}, "2"},
		{[]api.Job{held, queued, newer}, "4"},
		{[]api.Job{held}, "5"},
	} {
		job, found, err := Query{Name: "nb"}.choose(slurm{}, c.jobs)
		if err != nil || !found || job.ID != c.want {
			t.Errorf("job %q of %d, want %q (%v)", job.ID, len(c.jobs), c.want, err)
		}
	}

	second := api.Job{ID: "6", Name: "nb", State: api.JobRunning, Node: "lyra02", Submitted: at(5)}
	_, found, err := Query{Name: "nb"}.choose(slurm{}, []api.Job{running, held, second})
	if e, ok := errors.AsType[*AmbiguousError](err); found || !ok || e.Error() != `2 jobs called "nb" are running: 6 on lyra02, 1 on lyra01` {
		t.Errorf("between two that run: %v, %v", found, err)
	}
	running.Script, second.Script = "/h/.tunctl/t/x.sh", "/h/.tunctl/t/x.sh"
	if job, found, err := (Query{Tag: "t"}).choose(slurm{}, []api.Job{running, second}); err != nil || !found || job.ID != "6" {
		t.Errorf("by tag: %+v, %v, %v", job, found, err)
	}
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

func TestNoiseWrappersAliasesAndLocalesChangeNothing(t *testing.T) {
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
			m.Write(t, "job.7", "*** maintenance on Monday ***\n"+scontrolText()+"\nYour quota: 80 %\n")
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

func TestATableInsteadOfTheColumnsIsNotTakenForNoJobs(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Program(t, "squeue", `echo "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"; echo "                 7      day       nb     mira  R       0:10      1 lyra07"`)
	_, found, err := slurmWatcher(m).Find(t.Context(), Query{Name: "nb"})
	if found || !errors.Is(err, errSqueueTable) {
		t.Errorf("%v, %v", found, err)
	}
}

func TestAServerIsTheJobsOwnOrIsNotSaidToBe(t *testing.T) {
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
