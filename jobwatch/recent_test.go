package jobwatch

import (
	"fmt"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestRecentJobsAreTheEndedOnesOfTheLastDay(t *testing.T) {
	m := newMachine(t)
	fakeSlurm(t, m)
	now := time.Now().Unix()
	record := func(id int, state string, ended int64) string {
		return fmt.Sprintf("%d|%s|0:0|%d|%d|%d|cn01|normal|a|b\\n", id, state, ended-60, ended-50, ended)
	}
	m.program(t, "sacct", "printf '"+record(9, "COMPLETED", now-90000)+record(11, "CANCELLED by 7", now-30)+record(10, "FAILED", now-40)+record(12, "RUNNING", now)+"'")
	jobs, err := slurmWatcher(m).Recent(t.Context())
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if jobs[0].ID != "10" || jobs[0].State != api.JobFailed || jobs[1].State != api.JobCancelled || jobs[1].Name != "a|b" {
		t.Errorf("%+v", jobs)
	}
}

func TestWithoutAccountingTheControllersMemoryWillDo(t *testing.T) {
	m := newMachine(t)
	fakeSlurm(t, m)
	m.program(t, "squeue", `test "$2 $3" = "-t all" || exit 1
printf '7\0377\037N/A\037COMPLETED\037normal\037cn01\0371\0372\037%s\0370\037None\037x.sh\037/h/o\0371\037u\037cn01\037north\037done\036\n' "$(date +%s)"`)
	jobs, err := slurmWatcher(m).Recent(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].State != api.JobFinished || jobs[0].Name != "done" {
		t.Fatalf("%+v, %v", jobs, err)
	}
}

func TestEndedProcessesOfAPlainMachineAreRecent(t *testing.T) {
	m := newMachine(t)
	w := NewWatcher(m, Options{Scheduler: None, Limits: quickLimits()})
	job, err := w.Submit(t.Context(), Submission{Tag: "p1", Content: []byte("#!/bin/sh\nexit 4\n"), Base: "x.sh"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		jobs, err := w.Recent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 1 && jobs[0].ID == job.ID && jobs[0].Exit != nil && *jobs[0].Exit == 4 {
			return
		}
	}
}

func TestTheNewestOfALongTableOfEndedJobsAreRead(t *testing.T) {
	m := newMachine(t)
	m.program(t, "qselect", `case "$*" in *-tm*) echo "qselect: illegal -t value" >&2; exit 2 ;; esac`)
	m.program(t, "qstat", `echo
echo "pbs9:"
echo "                                                                                                   Req'd  Req'd   Elap"
echo "Job ID                         Username        Queue           Jobname         SessID   NDS  TSK   Memory Time  S Time"
echo "------------------------------ --------------- --------------- --------------- -------- ---- ----- ------ ----- - -----"
i=1
while test $i -le 2500; do
	printf '%-30s mira            cpu             nb                 25042    1     8   32gb 02:00 F 00:20 e12/0*8\n' "$i.pbs9"
	i=$((i + 1))
done`)
	w := NewWatcher(m, Options{Scheduler: PBS, Limits: quickLimits()})
	jobs, err := w.Recent(t.Context())
	if err != nil || len(jobs) == 0 || jobs[len(jobs)-1].ID != "2500.pbs9" && jobs[0].ID != "2500.pbs9" {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}
