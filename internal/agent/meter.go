package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/usage"
	"tunctl/jobwatch"
)

// meter measures what a session and its job use. The traffic of the forwards is always
// known. The job itself is measured while somebody looks, and a few times if the session
// has idle = "…" and seems unused.
type meter struct {
	session *session
	log     usageLog
	serving ctxtime.Mutex // held while serve runs

	// Of serve alone:
	measured
	sampler *sampler  // nil: it does not run
	added   time.Time // when the last sample was added

	mu   sync.Mutex // serve alone changes what it guards
	idle idle
}

// measured is what is known of one run of a job.
type measured struct {
	nodes   *jobNodes // nil: no job runs
	last    usage.Reading
	source  api.UsageSource // of last
	lastAt  time.Time       // when last was read; zero: never
	tried   time.Time       // when the job was last measured, or that failed; zero: never
	first   bool            // last has nothing recent to compare with
	cpu     *float64        // the use of CPUs between the last two readings
	span    time.Duration   // that was between them
	retry   time.Time       // when measuring inside may be tried again
	problem string          // why it failed
}

const (
	// trafficEvery is how often the traffic is noted while nobody looks.
	trafficEvery = time.Minute
	// secondReading is how soon a reading follows the first: the use of CPUs is the
	// difference of two.
	secondReading = time.Second
	// recentReading is how old a reading may be for the difference to be the use of now.
	recentReading = time.Minute
	// samplerRetry is the pause after measuring inside the job has failed.
	samplerRetry = 5 * time.Minute
)

func newMeter(s *session) *meter { return &meter{session: s, serving: ctxtime.NewMutex()} }

// serve measures until ctx ends. That of an earlier attempt may still be about to end.
func (m *meter) serve(ctx context.Context) {
	if m.serving.Lock(ctx) != nil {
		return
	}
	defer m.serving.Unlock()
	defer m.stop()
	m.note(func(i *idle) { i.use(time.Now()) }) // what was before is not known
	for {
		looked, changed := m.session.agent.usage.looking(m.session.name)
		m.measure(ctx, looked)
		select {
		case <-changed:
		case <-time.After(time.Until(m.added.Add(m.every(looked)))):
		case <-ctx.Done():
			return
		}
	}
}

// every is how far apart samples are.
func (m *meter) every(looked bool) time.Duration {
	switch limit := m.session.agent.limits.Usage; {
	case !looked:
		return trafficEvery
	case m.first:
		return min(limit, secondReading)
	default:
		return limit
	}
}

// measure adds a sample if one is due.
func (m *meter) measure(ctx context.Context, looked bool) {
	m.setRun()
	u := m.traffic()
	due := u.Time.Sub(m.added) >= m.every(looked)
	check := m.checkDue(u.Time)
	if looked && due || check {
		m.measureJob(ctx, &u)
		m.judge(ctx, u, check)
	}
	m.endIdle()
	if !looked {
		m.stop()
	}
	if !due && !check || ctx.Err() != nil {
		return
	}
	if u.Source != "" { // else it may be in use now
		u.IdleSince = m.idle.since
	}
	m.added = u.Time
	m.log.add(u)
	m.session.agent.usage.publish(u)
}

// endIdle withdraws the notice of an idle job that is used again.
func (m *meter) endIdle() {
	s := m.session
	s.mu.Lock()
	told := s.facts.idle
	s.mu.Unlock()
	if told && !m.idle.noticed {
		s.change(func(f *facts) { f.idle = false })
	}
}

// setRun takes in that the session's job has begun another run, or is another one.
func (m *meter) setRun() {
	nodes, err := m.session.runningNodes()
	if err != nil {
		nodes = nil
	}
	if nodes == m.nodes {
		return
	}
	m.stop()
	m.measured = measured{nodes: nodes}
	if nodes == nil {
		return
	}
	ref := nodes.current().Ref()
	if ref != m.idle.job {
		m.log.clear()
	}
	m.note(func(i *idle) {
		i.use(time.Now())
		if i.job != ref {
			*i = idle{job: ref, used: i.used, bytes: i.bytes}
		}
	})
}

// stop ends the program inside the job.
func (m *meter) stop() {
	if m.sampler != nil {
		m.sampler.close()
		m.sampler = nil
	}
}

// traffic is a sample of what is known without asking anybody. It also notes the signs of
// use among that.
func (m *meter) traffic() api.Usage {
	s := m.session
	s.mu.Lock()
	list := s.forward.status()
	s.mu.Unlock()
	u := api.Usage{Session: s.name, Time: time.Now()}
	users := int64(s.inside.Load())
	for _, f := range list {
		u.BytesIn, u.BytesOut = u.BytesIn+f.BytesIn, u.BytesOut+f.BytesOut
		users += f.Conns
	}
	m.note(func(i *idle) {
		bytes := u.BytesIn + u.BytesOut
		if users > 0 || bytes != i.bytes {
			i.use(u.Time)
		}
		i.bytes = bytes
	})
	return u
}

// measureJob adds what the job uses, or why that is not known.
func (m *meter) measureJob(ctx context.Context, u *api.Usage) {
	if m.nodes == nil || !m.connected() {
		return
	}
	r, source, err := m.read(ctx)
	switch {
	case ctx.Err() != nil || errors.Is(err, api.ErrDown):
		return
	case err != nil:
		m.tried = time.Now()
		u.Problem = api.Redact(err.Error())
		return
	}
	now := time.Now()
	m.tried = now
	m.compare(r, source, now)
	u.Time, u.Source, u.CPUs, u.Memory, u.MemoryLimit, u.GPUs = now, source, r.CPUs, r.Memory, r.MemoryLimit, r.GPUs
	if !m.first {
		u.CPUPercent = m.cpu
	}
}

// compare finds out the use of CPUs since the last reading. The clocks of the sources
// differ.
func (m *meter) compare(r usage.Reading, source api.UsageSource, now time.Time) {
	before := m.last
	if source != m.source {
		before = usage.Reading{}
	}
	if source == api.UsageScheduler && r.Clock == before.Clock {
		return // the same answer again
	}
	m.first = source == api.UsageStep && now.Sub(m.lastAt) > recentReading
	if source == api.UsageScheduler && before.Clock == 0 {
		before = usage.Reading{Clock: 1} // since the start of the job
	}
	m.cpu, m.span = nil, r.Clock-before.Clock
	if percent, known := r.Percent(before); known {
		m.cpu = &percent
	}
	m.last, m.source, m.lastAt = r, source, now
}

// connected reports whether the host responds, as far as is known.
func (m *meter) connected() bool {
	h := m.nodes.host.Status()
	return h.State == api.HostUp && h.NotRespondingSince.IsZero()
}

// read measures inside a job of Slurm or on a host without a scheduler. For others, and
// where that fails, it takes what the scheduler has counted.
func (m *meter) read(ctx context.Context) (usage.Reading, api.UsageSource, error) {
	scheduler, err := m.nodes.jobs.Scheduler(ctx)
	if err != nil {
		return usage.Reading{}, "", err
	}
	inside := scheduler == jobwatch.Slurm || scheduler == jobwatch.None
	if inside && !time.Now().Before(m.retry) {
		r, err := m.readInside(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, api.ErrDown) {
			return r, api.UsageStep, err
		}
		m.session.agent.log.Info("cannot measure the job", "session", m.session.name, "err", err)
		m.retry, m.problem = time.Now().Add(samplerRetry), err.Error()
	}
	job := m.nodes.current()
	counted, err := m.nodes.jobs.Usage(ctx, job.Ref())
	if err != nil && inside {
		err = errors.New(m.problem)
	}
	return fromScheduler(counted, job.Start), api.UsageScheduler, err
}

// readInside has the program inside the job measure, and starts it if need be.
func (m *meter) readInside(ctx context.Context) (usage.Reading, error) {
	if m.sampler == nil {
		node, err := m.nodes.machine(ctx, "")
		if err != nil {
			return usage.Reading{}, err
		}
		if m.sampler, err = startSampler(ctx, node, slurmID(m.nodes.current())); err != nil {
			return usage.Reading{}, err
		}
	}
	r, err := m.sampler.read(ctx)
	if err != nil {
		m.stop()
		if !m.connected() {
			err = api.ErrDown
		}
	}
	return r, err
}

// fromScheduler is what a scheduler has counted, as a reading whose clock is the time since
// the start of the job; zero: not known.
func fromScheduler(u jobwatch.Usage, start time.Time) usage.Reading {
	r := usage.Reading{Clock: u.Elapsed, CPU: u.CPU, CPUs: u.CPUs, Memory: u.Memory, MemoryLimit: u.MemoryLimit}
	if r.Clock == 0 && !start.IsZero() {
		r.Clock = max(0, u.At.Sub(start))
	}
	return r
}
