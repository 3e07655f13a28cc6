package jobwatch

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/sched"
)

// TestStepOutputTurns: jobs of a host take polite turns at being heard.
func TestStepOutputTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		w := NewWatcher(c, Options{Scheduler: slurmName})
		var all sync.WaitGroup
		for _, id := range []string{"1", "2", "3"} {
			all.Go(func() {
				if _, err := w.StepOutput(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(c.asked) != 3 {
			t.Fatalf("%d turns", len(c.asked))
		}
		for i := 1; i < len(c.asked); i++ {
			if gap := c.asked[i].Sub(c.asked[i-1]); gap < time.Minute {
				t.Errorf("two turns %s apart", gap)
			}
		}
	})
}

// TestStepOutput: only the newest steps are heard and their input is not ended.
func TestStepOutput(t *testing.T) {
	t.Parallel() // it takes as long as they are listened to
	m := jobtest.NewMachine(t)
	m.Program(t, "squeue", `printf '%s\n' 7.extern 7.batch 7.0 7.1 7.2; printf '%s\n' "$*" >"$HOME/words"`)
	m.Program(t, "sattach", `echo "step $1 says hello"
case $1 in 7.1) head -c 1000000 /dev/zero | tr '\0' x ;; esac
while read -r line; do :; done
echo "$1" >>"$HOME/ended"`)
	w := slurmWatcher(m)
	out, err := w.StepOutput(t.Context(), "7'; touch injected; '")
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > 1<<18+1 || !strings.Contains(string(out), "step 7.1 says hello\n") || strings.Contains(string(out), "7.0") {
		t.Errorf("%d bytes, beginning %q", len(out), out[:min(len(out), 80)])
	}
	if words := m.Read(t, "words"); !strings.Contains(words, "-j 7'; touch injected; '") {
		t.Errorf("squeue was asked %q", words)
	}
	for _, name := range []string{"ended", "injected"} {
		if _, err := os.Stat(m.File(name)); err == nil {
			t.Errorf("there is a file %q: %s", name, m.Read(t, name))
		}
	}
}

// TestStepOutputUnknown: a scheduler that shows no output says so.
func TestStepOutputUnknown(t *testing.T) {
	if _, err := NewWatcher(jobtest.NewMachine(t), Options{Scheduler: pbsName}).StepOutput(t.Context(), "7"); !errors.Is(err, ErrNoSteps) {
		t.Errorf("PBS: %v", err)
	}
	m := jobtest.NewMachine(t)
	m.Program(t, "cat", `exec /bin/cat "$@"`)
	m.Write(t, ".profile", "PATH="+posixsh.Quote(m.Bin)+"\n") // no sattach there
	if _, err := slurmWatcher(m).StepOutput(t.Context(), "7"); !errors.Is(err, ErrNoSteps) {
		t.Errorf("Slurm without sattach: %v", err)
	}
}

// TestRecent: recent jobs are the ended ones of the last day.
func TestRecent(t *testing.T) {
	m := jobtest.NewSlurm(t)
	now := time.Now().Unix()
	record := func(id int, state string, ended int64) string {
		return fmt.Sprintf("%d|%s|0:0|%d|%d|%d|cn01|normal||10|a|b\\n", id, state, ended-60, ended-50, ended)
	}
	m.Program(t, "sacct", "printf '"+record(9, "COMPLETED", now-90000)+record(11, "CANCELLED by 7", now-30)+record(10, "FAILED", now-40)+record(12, "RUNNING", now)+"'")
	jobs, err := slurmWatcher(m).Recent(t.Context())
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if jobs[0].ID != "10" || jobs[0].State != api.JobFailed || jobs[1].State != api.JobCancelled || jobs[1].Name != "a|b" {
		t.Errorf("%+v", jobs)
	}
}

// TestRecentWithoutAccounting: without accounting the controller's memory will do.
func TestRecentWithoutAccounting(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Program(t, "squeue", `test "$2 $3" = "-t all" || exit 1
printf '7\0377\037N/A\037COMPLETED\037normal\037cn01\0371\0372\037%s\0370\037None\037x.sh\037/h/o\0371\037u\037cn01\037north\037done\036\n' "$(date +%s)"`)
	jobs, err := slurmWatcher(m).Recent(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].State != api.JobFinished || jobs[0].Name != "done" {
		t.Fatalf("%+v, %v", jobs, err)
	}
}

// TestRecentProcesses: ended processes of a plain machine are recent.
func TestRecentProcesses(t *testing.T) {
	m := jobtest.NewMachine(t)
	w := watcher(m, noScheduler)
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

// TestRecentLongTable: the newest of a long table of ended jobs are read.
func TestRecentLongTable(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Program(t, "qselect", `case "$*" in *-tm*) echo "qselect: illegal -t value" >&2; exit 2 ;; esac`)
	m.Program(t, "qstat", `echo
echo "pbs9:"
echo "                                                                                                   Req'd  Req'd   Elap"
echo "Job ID                         Username        Queue           Jobname         SessID   NDS  TSK   Memory Time  S Time"
echo "------------------------------ --------------- --------------- --------------- -------- ---- ----- ------ ----- - -----"
i=1
while test $i -le 2500; do
	printf '%-30s mira            cpu             nb                 25042    1     8   32gb 02:00 F 00:20 e12/0*8\n' "$i.pbs9"
	i=$((i + 1))
done`)
	w := watcher(m, pbsName)
	jobs, err := w.Recent(t.Context())
	if err != nil || len(jobs) == 0 || jobs[len(jobs)-1].ID != "2500.pbs9" && jobs[0].ID != "2500.pbs9" {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

func TestExtend(t *testing.T) {
	const down = "slurm_update error: Unable to contact slurm controller (connect failure)"
	for name, tt := range map[string]struct {
		scheduler, program, id string
		says                   string // on standard error, before it fails with status
		status                 int
		asked, want            string // what the program is asked, or the error
		code                   api.Code
	}{
		"Slurm":                         {slurmName, "scontrol", "54", "", 0, "update JobId=54 TimeLimit=26:30:00", "", ""},
		"PBS":                           {pbsName, "qalter", "54.pbs101", "", 0, "-l walltime=26:30:00 54.pbs101", "", ""},
		"Slurm lets only operators":     {slurmName, "scontrol", "54", "Access/permission denied for job 54", 1, "", "Access/permission denied", api.CodeFailed},
		"Slurm's partition has a limit": {slurmName, "scontrol", "54", "slurm_update error: Requested time limit is invalid (missing or exceeds some limit)", 1, "", "exceeds some limit", api.CodeFailed},
		"Slurm's job is over":           {slurmName, "scontrol", "54", "Invalid job id specified for job 54", 1, "", "no longer running", api.CodeJobEnded},
		"Slurm does not answer":         {slurmName, "scontrol", "54", down, 1, "", "the scheduler does not respond", ""}, // which is no refusal
		"PBS lets only managers":        {pbsName, "qalter", "54", "qalter: Unauthorized Request  54.pbs101", 159, "", "Unauthorized Request", api.CodeFailed},
		"PBS's job is over":             {pbsName, "qalter", "54", "qalter: Job has finished 54.pbs101", 35, "", "no longer running", api.CodeJobEnded},
		"no scheduler":                  {noScheduler, "true", "54", "", 0, "", "no time limit", api.CodeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			m := jobtest.NewMachine(t)
			m.Program(t, tt.program, fmt.Sprintf("printf '%%s\\n' \"$*\" >\"$HOME/asked\"; echo '%s' >&2; exit %d", tt.says, tt.status))
			err := watcher(m, tt.scheduler).Extend(t.Context(), tt.id, 26*time.Hour+30*time.Minute)
			if tt.asked != "" {
				if got := strings.TrimSpace(m.Read(t, "asked")); err != nil || got != tt.asked {
					t.Errorf("it was asked %q, %v; want %q", got, err, tt.asked)
				}
				return
			}
			e, refused := errors.AsType[*api.Error](err)
			if err == nil || !strings.Contains(err.Error(), tt.want) || refused != (tt.code != "") || refused && e.Code != tt.code {
				t.Errorf("%#v", err)
			}
		})
	}
}

func TestPBSTellsWhatAJobUsesWithTheAnswersThatAreFetchedAnyway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pbsServer{}
		job := p.add("7.pbs", "nb", "R", "resources_used.cput", "00:10:00", "resources_used.walltime", "00:20:00",
			"resources_used.mem", "21736kb", "resources_used.ncpus", "2", "Resource_List.mem", "32gb", "Resource_List.ncpus", "2")
		w := NewWatcher(p, Options{Scheduler: pbsName})
		if _, err := w.Usage(t.Context(), "7.pbs"); !errors.Is(err, sched.ErrNoUsage) {
			t.Errorf("before any answer: %v", err)
		}
		watch := w.Watch("7.pbs")
		defer watch.Close()
		go func() { _ = w.Serve(t.Context()) }()
		<-watch.C()
		synctest.Wait()
		before := len(p.connections())
		u, err := w.Usage(t.Context(), "7.pbs")
		if err != nil || u.CPU != 10*time.Minute || u.Elapsed != 20*time.Minute || u.CPUs != 2 || u.Memory != 21736<<10 || u.MemoryLimit != 32<<30 {
			t.Errorf("%+v, %v", u, err)
		}
		if n := len(p.connections()); n != before {
			t.Errorf("it made %d connections for that", n-before)
		}
		p.set(job, "R", "resources_used.cput", "00:11:00", "resources_used.walltime", "00:22:00")
		time.Sleep(2 * time.Minute)
		if u, _ := w.Usage(t.Context(), "7.pbs"); u.CPU != 11*time.Minute {
			t.Errorf("later: %+v", u)
		}
		p.set(job, "E")
		time.Sleep(2 * time.Minute)
		if _, err := w.Usage(t.Context(), "7.pbs"); !errors.Is(err, sched.ErrNoUsage) {
			t.Errorf("of a job that ends: %v", err)
		}
	})
}

func TestSlurmIsAskedWhatJobsUseAtThePaceOfTheQueue(t *testing.T) {
	m := jobtest.NewMachine(t)
	m.Program(t, "squeue", `printf '%s\n' "squeue $*" >>"$HOME/asked"; echo 'cpus|8'`)
	m.Program(t, "sstat", `printf '%s\n' "sstat $*" >>"$HOME/asked"; printf '1|00:01:00|1024K\n4|00:02.500|1.50M\n|||\n'`)
	w := NewWatcher(m, Options{Scheduler: slurmName})
	u, err := w.Usage(t.Context(), "7")
	if want := time.Minute + 10*time.Second; err != nil || u.CPU != want || u.CPUs != 8 || u.Memory != 1<<20+6<<20 {
		t.Errorf("%+v, %v", u, err)
	}
	again, err := w.Usage(t.Context(), "7")
	if err != nil || again != u {
		t.Errorf("at once again: %+v, %v", again, err)
	}
	if _, err := w.Usage(t.Context(), "8"); !errors.Is(err, sched.ErrNoUsage) {
		t.Errorf("another job before its turn: %v", err)
	}
	w.usages.next = time.Time{}
	if _, err := w.Usage(t.Context(), "7"); err != nil {
		t.Error(err)
	}
	asked := m.Read(t, "asked")
	if strings.Count(asked, "sstat") != 2 || strings.Count(asked, "squeue") != 1 {
		t.Errorf("it was asked\n%s", asked)
	}
	m.Program(t, "sstat", `echo 'sstat: error: No steps running for job 7' >&2`)
	w.usages.next = time.Time{}
	if _, err := w.Usage(t.Context(), "7"); !errors.Is(err, sched.ErrNoUsage) {
		t.Errorf("without accounting: %v", err)
	}
}
