package slurm

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
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

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func TestSqueueIsReadWhateverAJobIsCalled(t *testing.T) {
	out := "CLUSTER: north\n" +
		jobtest.SqueueRecord("101", "N/A", "N/A", "RUNNING", "gpu", "cn[07-08,10],gpu3", "1794702600", "1794702650", "1794706250", "2", "None", "/home/u/.tunctl/t1/a b.sh", "/home/u/%x.%j.log", "1", "u", "n/a", "north", "my|job\n\"x\" State=FAILED") +
		jobtest.SqueueRecord("102", "N/A", "N/A", "PENDING", "cpu", "", "1794702600", "1794709999", "N/A", "0", "Resources", "(null)", "/home/u/%u-%4j.%N.out", "1", "u", "n/a", "north", "waits") +
		jobtest.SqueueRecord("103", "N/A", "N/A", "PENDING", "cpu", "", "2026-11-15T00:30:00", "N/A", "N/A", "0", "PartitionTimeLimit", "(null)", "/home/u/slurm-103.out", "0", "u", "n/a", "north", "never") +
		jobtest.SqueueRecord("104", "N/A", "N/A", "PENDING", "cpu", "", "1794702600", "N/A", "N/A", "0", "JobHeldUser", "(null)", "/home/u/%4j/100%%.out", "1", "u", "n/a", "north", "held") +
		jobtest.SqueueRecord("107", "105", "1", "RUNNING", "cpu", "cn02", "1794702600", "1794702650", "NONE", "0", "None", "(null)", "/home/u/slurm-107.out", "1", "u", "n/a", "north", "arr") +
		jobtest.SqueueRecord("105", "105", "2-5%2", "PENDING", "cpu", "", "1794702600", "N/A", "N/A", "0", "JobArrayTaskLimit", "(null)", "/home/u/slurm-105.out", "1", "u", "n/a", "north", "arr") +
		jobtest.SqueueRecord("108", "N/A", "N/A", "SUSPENDED", "cpu", "cn02", "1794702600", "1794702650", "1794706250", "0", "None", "(null)", "/dev/null", "1", "u", "n/a", "north", "susp") +
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
	if job, ok := sched.Pick(newScheduler(), got, "105"); !ok || job.ID != "105_1" {
		t.Errorf("of the array, %q serves", job.ID)
	}
}

func TestScontrolIsReadWhateverAJobIsCalled(t *testing.T) {
	const rest = " UserId=u(2001) GroupId=g(2001) MCS_label=N/A Priority=1 Nice=0 Account=p QOS=normal JobState=%STATE% Reason=None Dependency=(null)" +
		" Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:9 TimeLimit=1-01:00:00 SubmitTime=1794702600 EligibleTime=1794702600 StartTime=1794702650 EndTime=1794706250" +
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
		OtherLogs: []string{"/home/u/a b.err"}, Script: "/home/u/.tunctl/t 1/job.sh", Limit: 25 * 3600, Asks: "account=p,qos=normal,cpu=1,mem=200M",
	}
	if !reflect.DeepEqual(jobs[0], want) {
		t.Errorf("got  %+v\nwant %+v", jobs[0], want)
	}
	if j := jobs[1]; j.ID != "40_3" || j.State != api.JobFailed || j.Exit == nil || *j.Exit != 137 || !strings.Contains(j.Hint, "memory") {
		t.Errorf("got %+v", j)
	}
}

func TestSacctIsReadWithPipesInTheName(t *testing.T) {
	jobs := parseSacct("7|CANCELLED by 2001|0:15|1794702600|1794702650|1794702700|cn01|gpu|||a|b\n8|COMPLETED|0:0|1794702600|1794702650|1794702700|None assigned|cpu|||ok\nshort|line\n" +
		"9|FAILED|0:53|1794702600|1794702650|1794702700|cn01|cpu|||no folder for its log\n10|OUT_OF_MEMORY|0:125|1794702600|1794702650|1794702700|cn[01-02]|cpu|billing=4,cpu=4,mem=16G,node=2||x\n" +
		"11|FAILED|0:9|1794702600|1794702650|1794702700|cn[01-02]|cpu|billing=4,cpu=4,mem=16G,node=2||x\n")
	if len(jobs) != 5 {
		t.Fatalf("%d jobs", len(jobs))
	}
	if j := jobs[0]; j.State != api.JobCancelled || j.Name != "a|b" || j.Reason != "CANCELLED by 2001" || j.End != at(1794702700) || *j.Exit != 143 {
		t.Errorf("got %+v", j)
	}
	if j := jobs[1]; j.State != api.JobFinished || j.Node != "" || *j.Exit != 0 {
		t.Errorf("got %+v", j)
	}
	if j := jobs[2]; j.State != api.JobFailed || !strings.Contains(j.Hint, "could not open the output file") {
		t.Errorf("got %+v", j)
	}
	for _, j := range jobs[3:] {
		if j.State != api.JobOOM && j.State != api.JobFailed || j.Memory != 8<<30 {
			t.Errorf("got %+v", j)
		}
	}
}

func TestAJobWithoutANodeNeverStarted(t *testing.T) {
	for program, jobs := range map[string][]api.Job{
		"sacct":    parseSacct("9|CANCELLED by 2001|0:0|1794702600|1794702700|1794702700|None assigned|cpu|||x\n"),
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
		r := reasonFor(word)
		if r.Words == "" || r.Never != never || strings.HasPrefix(r.Hint(), "the job will never start as submitted") != never {
			t.Errorf("%s: %+v", word, r)
		}
	}
	if hint := reasonFor("SomethingNew").Hint(); hint != "" {
		t.Errorf("an unknown reason became %q", hint)
	}
}

// sampleJob is the only job of a sample.
func sampleJob(t *testing.T, name string) api.Job {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "samples", "slurm", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	jobs := parseScontrol(string(jobtest.ParseCapture(name, data).Result.Stdout))
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
		if job := sampleJob(t, name); !strings.HasPrefix(job.Hint, want) || job.State != api.JobQueued {
			t.Errorf("%s: %s, %q", name, job.State, job.Hint)
		}
	}
}

func TestAJobThatAnotherClusterRunsIsNotCancelled(t *testing.T) {
	if job := sampleJob(t, "revoked-at-the-origin"); job.State.Ended() || !strings.HasPrefix(job.Hint, "cluster south of the federation runs the job") {
		t.Errorf("%s, %q", job.State, job.Hint)
	}
	if jobs := parseSacct("7|REVOKED|0:0|1794702600|1794702650|1794702700|None assigned|gpu|||nb\n"); jobs[0].State.Ended() {
		t.Errorf("the accounting's record is %s", jobs[0].State)
	}
}

func TestAJobWithoutItsEnvironmentIsHeld(t *testing.T) {
	if job := sampleJob(t, "held-without-environment"); job.State != api.JobHeld || !strings.Contains(job.Hint, ".bashrc") {
		t.Errorf("%s, %q", job.State, job.Hint)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("JobId=1 JobName=x UserId=u(1) GroupId=g(1) MCS_label=N/A JobState=RUNNING Reason=None ExitCode=0:0 Command=/a WorkDir=/b StdOut=/c Power=")
	f.Add(jobtest.SqueueRecord("1", "N/A", "N/A", "RUNNING", "p", "cn[1-2]", "1", "2", "3", "0", "None", "(null)", "/o/%5j", "1", "u", "n/a", "north", "n"))
	f.Add("1|FAILED|1:0|1|2|3|cn01|p|name")
	f.Fuzz(func(t *testing.T, s string) {
		for _, jobs := range [][]api.Job{parseScontrol(s), parseSqueue(s), parseSacct(s)} {
			if len(jobs) > len(s) {
				t.Fatal("more jobs than bytes")
			}
		}
		for _, r := range splitScontrol(s) {
			sched.RedirectedLogs(s, "", "SLURM_JOB", r.variables())
		}
		firstNode(s)
		sched.ParseClockTime(s)
	})
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
		jobs := parseScontrol(jobtest.ScontrolText(c.fields...))
		if len(jobs) != 1 || jobs[0].Log != c.want || len(jobs[0].OtherLogs) != 0 {
			t.Errorf("%s: %+v, want the log %q", name, jobs, c.want)
		}
	}
}

func TestAPrologThatTakesLongIsShown(t *testing.T) {
	for _, job := range append(parseScontrol(jobtest.ScontrolText("Reason=Prolog")), parseSqueue(
		jobtest.SqueueRecord("7", "N/A", "N/A", "RUNNING", "p", "lyra07", "1", "2", "3", "0", "Prolog", "/h/run.sh", "/h/%j", "1", "u", "lyra07", "lab", "nb"))...) {
		if job.State != api.JobRunning || job.Reason != "Prolog" || !strings.Contains(job.Hint, "being prepared") {
			t.Errorf("%+v", job)
		}
	}
}

func TestClustersAreReadFromSbatchsWords(t *testing.T) {
	for words, want := range map[string]string{
		"-M gpu": "gpu", "-Mgpu": "gpu", "--clusters=gpu,cpu": "cpu gpu", "--clusters gpu": "gpu", "--cluster=gpu": "gpu", "--mem=1G -p x": "", "-M": "", "-M all": "",
	} {
		s := newScheduler()
		added := s.AddClusters(strings.Fields(words))
		if got := strings.Join(s.otherClusters(), " "); got != want || added != (want != "") {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}

func TestTimesOfSstatAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"00:00:07": 7 * time.Second, "1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second,
		"01:02.500": 62500 * time.Millisecond, "": 0, "INVALID": 0, "213503982334-14:25:51": 0,
	} {
		if got := parseDuration(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
