package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
)

// look opens a stream of what jobs use. The function that it returns closes it, and
// returns what came.
func (g *workday) look(session string) func() []api.Usage {
	ctx, cancel := context.WithCancel(g.t.Context())
	out := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.agent.server.handleUsage(out, httptest.NewRequest(http.MethodGet, "/v1/usage?session="+session, nil).WithContext(ctx))
	}()
	return func() []api.Usage {
		cancel()
		<-done
		var list []api.Usage
		for line := range bytes.Lines(out.Body.Bytes()) {
			var u api.Usage
			if err := json.Unmarshal(line, &u); err != nil {
				g.t.Fatalf("%v: %s", err, line)
			}
			list = append(list, u)
		}
		return list
	}
}

// runningWorkday is a working day of a user whose jobs all run from the start, without random intervals.
func runningWorkday(t *testing.T) *workday {
	t.Helper()
	limits := session.DefaultLimits()
	limits.Jobs.Jitter = 0
	g := workdayWith(t, limits)
	for _, h := range g.hosts {
		for _, j := range h.jobs.jobs {
			j.start, j.limit = g.since, 12*time.Hour
		}
	}
	return g
}

// hour is what the hosts saw in an hour of ten sessions, with that many streams open.
func (g *workday) hour(streams int) map[string]map[string]int {
	g.up()
	g.until(8, 5)
	var ends []func() []api.Usage
	for range streams {
		ends = append(ends, g.look(""))
	}
	g.until(9, 5)
	for _, f := range ends {
		samples := map[string]int{}
		for _, u := range f() {
			if u.Source == api.UsageStep && u.CPUPercent != nil && u.Memory == 1000000 && u.MemoryLimit == 4000000 && len(u.GPUs) == 2 {
				samples[u.Session]++
			}
		}
		for _, s := range g.agent.server.status().Sessions {
			if s.Job != nil && samples[s.Name] < 300 {
				g.t.Errorf("%d samples of %s in an hour", samples[s.Name], s.Name)
			}
		}
	}
	synctest.Wait()
	seen := map[string]map[string]int{}
	for _, name := range g.names {
		h := g.hosts[name]
		seen[name] = map[string]int{}
		for _, what := range []string{"queries", "steps", "logins"} {
			seen[name][what] = h.uses[simUse{what, 0}] + h.uses[simUse{what, 1}]
		}
		if h.programs != 0 {
			g.t.Errorf("%d programs are left on %s", h.programs, name)
		}
	}
	return seen
}

func TestUsage(t *testing.T) {
	simulate(t, "is measured only while somebody looks", func(t *testing.T) {
		g := runningWorkday(t)
		g.up("alpha-0", "alpha-1")
		g.until(8, 30)
		alpha := g.hosts["alpha"]
		synctest.Wait()
		if alpha.readings != 0 {
			t.Errorf("it was measured %d times before anybody looked", alpha.readings)
		}
		first, second := g.look("alpha-0"), g.look("alpha-0")
		g.until(8, 40)
		synctest.Wait()
		one := alpha.readings
		if alpha.programs != 1 || one < 55 || one > 65 {
			t.Errorf("two look at one session: %d programs run, %d readings in ten minutes", alpha.programs, one)
		}
		traffic := first()
		if len(traffic) < 20+one || traffic[0].Source != "" || traffic[0].Time.After(g.since.Add(2*time.Minute)) {
			t.Errorf("%d samples, the first is %+v", len(traffic), traffic[0])
		}
		g.until(8, 41)
		synctest.Wait()
		if alpha.programs != 1 {
			t.Error("the program has ended although somebody still looks")
		}
		second()
		synctest.Wait()
		if alpha.programs != 0 {
			t.Error("the program runs although nobody looks any more")
		}
		was := alpha.readings
		g.until(9, 0)
		synctest.Wait()
		if alpha.readings != was {
			t.Errorf("%d readings after that", alpha.readings-was)
		}
		if n := len(g.session("alpha-0").Meter.Samples()); n > int(time.Hour/(20*time.Second))+1 {
			t.Errorf("%d samples are kept", n)
		}
	})
	simulate(t, "that the scheduler counts is compared with its own figures", func(t *testing.T) {
		g := runningWorkday(t)
		g.up("alpha-0", "beta-0")
		for _, host := range []string{"alpha", "beta"} {
			g.on(host, func(h *simHost) { h.counted, h.computes = true, true })
		}
		g.on("alpha", func(h *simHost) { h.noSteps = true })
		g.until(8, 30)
		alpha, beta := g.look("alpha-0"), g.look("beta-0")
		g.until(8, 35)
		g.on("beta", func(h *simHost) { h.noSteps = true })
		g.until(8, 45)
		for session, samples := range map[string][]api.Usage{"alpha-0": alpha(), "beta-0": beta()} {
			n := 0
			for _, u := range samples {
				if u.Source != api.UsageScheduler {
					continue
				}
				n++
				if u.CPUPercent == nil || *u.CPUPercent < 24 || *u.CPUPercent > 26 {
					t.Errorf("%s: one of four CPUs is busy, shown is %s", session, percentOf(u))
				}
				if !u.IdleSince.IsZero() {
					t.Errorf("%s is called idle since %v", session, u.IdleSince)
				}
			}
			if n < 20 {
				t.Errorf("%s: %d samples from the scheduler", session, n)
			}
		}
	})
}

func percentOf(u api.Usage) string {
	if u.CPUPercent == nil {
		return "nothing"
	}
	return fmt.Sprintf("%.1f %%", *u.CPUPercent)
}
