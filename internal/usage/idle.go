package usage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tunctl/internal/api"
)

// idle is what is known about the use of a job. All times are of the wall clock: a job is
// charged also while the laptop sleeps.
type idle struct {
	job     string        // its api.Job.Ref
	used    time.Time     // when something last used it, as far as is known
	since   time.Time     // nothing has used it since then; zero: it is in use, or that is not known
	seen    time.Time     // when that was last found out
	total   time.Duration // of its idle times before that
	bytes   int64         // of the forwards, when they were last looked at
	asked   time.Time     // when its page was last asked
	open    bool          // that was in use then: a page is open or a kernel busy
	noticed bool          // the user was told about this idle time
}

const (
	// idlePercent is below what the CPUs and each GPU are unused. An idle server takes some.
	idlePercent = 5
	// idleCPUs is the same in CPUs: one busy program on a large node uses few percent.
	idleCPUs = 0.5
	// pageEvery is how often the page is asked while somebody looks.
	pageEvery = 5 * time.Minute
)

// use takes in that something used the job. An idle time ends when it was last seen.
func (i *idle) use(at time.Time) {
	i.total = i.time()
	i.used, i.since, i.noticed = at.Round(0), time.Time{}, false
}

// time is how long the job was idle, as far as that was measured.
func (i *idle) time() time.Duration {
	if i.since.IsZero() {
		return i.total
	}
	return i.total + i.seen.Sub(i.since)
}

// note changes what is known about the use of the job. Only Serve does.
func (m *Meter) note(change func(*idle)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.idle)
}

// IdleTime is how long a job was idle, as far as that was measured.
func (m *Meter) IdleTime(ref string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle.job != ref {
		return 0
	}
	return m.idle.time()
}

// checkDue reports whether the job should be measured, to find out whether it is idle:
// soon after the last sign of use, for something to compare with, then twice until a
// user is told, and after that rarely. A check that fails is not repeated at once: it may
// have cost a job step.
func (m *Meter) checkDue(now time.Time) bool {
	limit := m.source.IdleAfter()
	if limit == 0 || m.run == nil || now.Before(m.retry) || !m.run.Connected() {
		return false
	}
	unused, tried := now.Round(0).Sub(m.idle.used), m.tried.Round(0).Sub(m.idle.used)
	passed := func(mark time.Duration) bool { return unused >= mark && tried < mark }
	switch {
	case m.tried.IsZero() || tried < 0:
		return unused >= limit/10
	case m.idle.noticed:
		return unused-tried >= limit
	}
	// The last is for a first measurement that was late: the host was not connected.
	return passed(limit/2) || passed(limit) || unused-tried >= limit/2
}

// judge finds out from a measurement whether the job is idle, and tells the user after a long
// time. Only where that is due is its page asked, which costs the cluster two requests.
func (m *Meter) judge(ctx context.Context, u api.Usage, check bool) {
	if u.Source == "" || m.cpu == nil || m.span < m.every/2 {
		return // so short a time has mostly seen the measurement itself
	}
	now, limit := u.Time, m.source.IdleAfter()
	busy := computes(*m.cpu, u)
	asked := !busy && (check || now.Sub(m.idle.asked) >= pageEvery)
	var active time.Time // when the page was last used
	if asked {
		var err error
		if active, err = m.source.PageUsed(ctx); err != nil {
			m.log.Debug("cannot ask the Jupyter server", "session", m.session, "err", err)
		}
	}
	var long time.Duration
	tell := false
	m.note(func(i *idle) {
		if asked {
			i.asked, i.open = now, !active.Before(now)
		}
		switch {
		case busy || asked && i.open:
			i.use(now)
			return
		case i.open: // until it is asked again
			return
		case active.After(i.used):
			i.use(active)
		}
		i.since, i.seen = i.used, now.Round(0)
		long = max(0, i.seen.Sub(i.since))
		tell = limit > 0 && long >= limit && !i.noticed
		i.noticed = i.noticed || tell
	})
	if tell {
		m.source.SetIdle(idleText(m.session, long, m.run.Job(), m.run.Nodes(), u))
	}
}

// computes reports whether a job uses its CPUs or GPUs. A GPU of which that is not known
// does not count.
func computes(cpu float64, u api.Usage) bool {
	return cpu >= idlePercent || cpu/100*float64(u.CPUs) >= idleCPUs ||
		slices.ContainsFunc(u.GPUs, func(g api.GPUUsage) bool { return g.Percent != nil && *g.Percent >= idlePercent })
}

// idleText tells the user that a job is idle, and what that costs.
func idleText(session string, long time.Duration, job api.Job, nodes int, u api.Usage) string {
	text := fmt.Sprintf("%s: idle for %s, ", session, api.DurationText(long))
	left := time.Until(job.End)
	if job.End.IsZero() || left <= 0 {
		return text + "and its job has no time limit"
	}
	of, unit := u.CPUs, "CPU"
	if len(u.GPUs) > 0 {
		of, unit = len(u.GPUs), "GPU"
	}
	if unit == "GPU" || u.Source == api.UsageStep { // a scheduler counts the CPUs of all nodes
		of *= max(1, nodes)
	}
	hours := float64(of) * left.Hours()
	switch {
	case of == 0:
		return text + "and its job may run for another " + api.DurationText(left)
	case hours >= 100:
		return text + fmt.Sprintf("%.0f %s-hours left in this job", hours, unit)
	}
	return text + fmt.Sprintf("%.1f %s-hours left in this job", hours, unit)
}
