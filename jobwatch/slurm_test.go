package jobwatch

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// parseScontrol reads the answer of scontrol show job, one line a job.
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
			ID: "101", Name: "my|job\n\"x\" State=FAILED", State: api.JobRunning, Node: "cn07", Queue: "gpu",
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
	if job, ok := pick(slurm{}, got, "105"); !ok || job.ID != "105_1" {
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

func TestReasonsThatWaitingDoesNotCureAreCalledOut(t *testing.T) {
	for word, never := range map[string]bool{
		"Resources": false, "Priority": false, "BeginTime": false, "QOSMaxJobsPerUserLimit": false, "AssocGrpCpuLimit": false, "AssocGrpGRES": false,
		"ReqNodeNotAvail, UnavailableNodes:cn02": false, "ReqNodeNotAvail,_Reserved_for_maintenance": false,
		"PartitionConfig": true, "AssocGrpBillingMinutes": true, "AssocGrpCPUMinutesLimit": true, "DependencyNeverSatisfied": true,
		"QOSMaxWallDurationPerJobLimit": true, "QOSMaxCpuPerJobLimit": true, "QOSMinGRES": true, "BadConstraints": true,
		"Job's_account_not_permitted_to_use_this_partition_(staff_allows_staff_not_proj1)": true,
	} {
		r := slurmReason(word)
		if r.words == "" || r.never != never || strings.HasPrefix(r.hint(), "the job will never start as submitted") != never {
			t.Errorf("%s: %+v", word, r)
		}
	}
	if hint := slurmReason("SomethingNew").hint(); hint != "" {
		t.Errorf("an unknown reason became %q", hint)
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
			ownLogs(parseRedirections(s, r.value), "PBS_JOB")
			r.script()
		}
		for _, r := range splitScontrol(s) {
			ownLogs(parseRedirections(s, r.value), "SLURM_JOB")
		}
		firstNode(s)
		pbsDuration(s)
		sections(s, "mark")
	})
}
