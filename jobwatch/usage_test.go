package jobwatch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/sched"
)

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
