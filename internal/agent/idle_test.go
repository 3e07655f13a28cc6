package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
)

// idleWorkday is a working day of a user with these sessions up, which have idle = "30m" and jobs that run.
func idleWorkday(t *testing.T, sessions ...string) *workday {
	t.Helper()
	g := runningWorkday(t)
	for i := range g.agent.Settings.Config().Sessions {
		g.agent.Settings.Config().Sessions[i].Idle = 30 * time.Minute
	}
	g.up(sessions...)
	return g
}

// idleNotices are the notices about idle jobs so far.
func (g *workday) idleNotices() []string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []string
	for _, n := range g.told {
		if n.Kind == api.NoticeIdle {
			list = append(list, n.Session+" "+n.Text)
		}
	}
	return list
}

// on changes what the jobs on a host do.
func (g *workday) on(host string, change func(h *simHost)) {
	h := g.hosts[host]
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// readings is how often jobs on a host were measured.
func (g *workday) readings(host string) (n int) {
	g.on(host, func(h *simHost) { n = h.readings })
	return n
}

func TestIdleDay(t *testing.T) {
	simulate(t, "of an idle job has one notice until it is used again", func(t *testing.T) {
		g := idleWorkday(t, "alpha-0")
		g.until(8, 29)
		if told := g.idleNotices(); len(told) != 0 {
			t.Fatalf("too early: %q", told)
		}
		g.until(8, 33)
		// Two GPUs, and a limit of twelve hours from eight o'clock on.
		want := []string{"alpha-0 alpha-0: idle for 30 min, 23.0 GPU-hours left in this job"}
		if told := g.idleNotices(); !slices.Equal(told, want) {
			t.Fatalf("told %q, want %q", told, want)
		}
		if n := g.readings("alpha"); n > 3 {
			t.Errorf("it was measured %d times", n)
		}
		g.until(10, 0)
		if told := g.idleNotices(); len(told) != 1 || !g.session("alpha-0").Status().Idle {
			t.Errorf("told again, or no longer shown as idle: %q", told)
		}
		if n := g.readings("alpha"); n > 3+4 {
			t.Errorf("it was measured %d times in two hours", n)
		}
		s := g.session("alpha-0")
		if got := s.Idle(s.Status().Job.Ref()); got < 90*time.Minute || got > 2*time.Hour {
			t.Errorf("it was idle for %v", got)
		}
		g.on("alpha", func(h *simHost) { h.busyKernel, h.lastUse = true, time.Now() })
		g.until(10, 45)
		if s.Status().Idle {
			t.Error("its kernel is busy, and the notice stays")
		}
		g.on("alpha", func(h *simHost) { h.busyKernel, h.lastUse = false, time.Now() })
		g.until(11, 10)
		if told := g.idleNotices(); len(told) != 1 {
			t.Errorf("its kernel was busy until 10:45, and at 11:10 a person was told %q", told)
		}
		g.until(12, 0)
		if told := g.idleNotices(); len(told) != 2 || !strings.Contains(told[1], ": idle for ") {
			t.Errorf("after the next half hour: %q", told)
		}
		if st := s.Status(); st.State != api.SessionReady || st.Job.State != api.JobRunning {
			t.Errorf("the session is %s, its job %s", st.State, st.Job.State)
		}
		s.Jobs.RecordRun(*s.Status().Job)
		runs, err := g.agent.History.Runs()
		if err != nil || len(runs) != 1 || runs[0].Idle < 90*60 || runs[0].Idle > 4*3600 {
			t.Errorf("the history has %+v, %v", runs, err)
		}
	})
	simulate(t, "of a job in use has none", func(t *testing.T) {
		g := idleWorkday(t, "alpha-0", "beta-0", "gamma-0", "mfa-0")
		g.until(8, 1)
		g.on("alpha", func(h *simHost) { h.computes = true })
		g.on("beta", func(h *simHost) { h.busyKernel, h.lastUse = true, g.since })
		g.session("gamma-0").Meter.Enter() // a shell
		g.on("mfa", func(h *simHost) { h.lastUse = g.since.Add(2 * time.Hour) })
		g.until(10, 0)
		if told := g.idleNotices(); len(told) != 0 {
			t.Errorf("told %q", told)
		}
		for _, host := range g.names {
			if n := g.readings(host); n > 10 {
				t.Errorf("%s: %d measurements in two hours", host, n)
			}
		}
	})
}

func TestIdle(t *testing.T) {
	simulate(t, "is not said of a job that cannot be measured", func(t *testing.T) {
		g := idleWorkday(t, "alpha-0", "beta-0")
		g.until(8, 1)
		g.hosts["alpha"].restart()
		g.on("beta", func(h *simHost) { h.noSteps = true })
		g.until(9, 30)
		if told := g.idleNotices(); len(told) != 0 {
			t.Errorf("told %q", told)
		}
		look := g.look("beta-0")
		g.until(9, 31)
		if all := look(); len(all) == 0 || all[len(all)-1].Problem == "" {
			t.Errorf("who looks is told %+v", all)
		}
	})
	simulate(t, "is said of a job that is measured late", func(t *testing.T) {
		g := idleWorkday(t, "alpha-0")
		g.on("alpha", func(h *simHost) { h.noSteps = true })
		g.until(8, 35)
		synctest.Wait()
		if n := g.hosts["alpha"].uses[simUse{"steps", 0}]; n == 0 || n > 2*4 {
			t.Errorf("%d steps were tried in vain", n) // each with and without --mem=0
		}
		g.on("alpha", func(h *simHost) { h.noSteps = false })
		g.until(9, 40)
		if told := g.idleNotices(); len(told) != 1 {
			t.Errorf("told %q", told)
		}
	})
	simulate(t, "is shown only while that is known", func(t *testing.T) {
		g := runningWorkday(t)
		g.up("alpha-0", "beta-0")
		g.on("beta", func(h *simHost) { h.busyKernel, h.lastUse = true, g.since })
		g.until(8, 10)
		alpha, beta := g.look("alpha-0"), g.look("beta-0")
		g.until(8, 22)
		if all := alpha(); all[len(all)-1].IdleSince.IsZero() {
			t.Error("an unused job is not called idle")
		}
		for _, u := range beta() {
			if !u.IdleSince.IsZero() {
				t.Fatalf("with a busy kernel, it is called idle since %v at %v", u.IdleSince, u.Time)
			}
		}
		g.until(8, 30)
		synctest.Wait()
		all := g.session("alpha-0").Meter.Samples()
		if last := all[len(all)-1]; !last.IdleSince.IsZero() {
			t.Errorf("nobody measures it any more, and at %v it is called idle since %v", last.Time, last.IdleSince)
		}
	})
}
