package usage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
)

// Meter measures what a session and its job use. The traffic of the forwards is always
// known. The job itself is measured while somebody looks, and a few times if the session
// has idle = "…" and seems unused.
type Meter struct {
	session string
	source  Source
	hub     *Hub
	every   time.Duration // how often a running job is measured while somebody looks
	log     *slog.Logger
	serving ctxtime.Mutex // held while Serve runs
	inside  atomic.Int32  // how many shells, editors and copies are inside the job

	// Of Serve alone:
	measured
	sampler *sampler  // nil: it does not run
	added   time.Time // when the last sample was added

	mu      sync.Mutex // Serve alone changes what it guards
	idle    idle
	samples []api.Usage // of the last hour
}

// measured is what is known of one run of a job.
type measured struct {
	run     Run // nil: no job runs
	last    Reading
	from    api.UsageSource // whose reading last is
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

// NewMeter returns the meter of a session. It gives its samples to a hub, and measures a running
// job that often while somebody looks.
func NewMeter(session string, source Source, hub *Hub, every time.Duration, log *slog.Logger) *Meter {
	return &Meter{session: session, source: source, hub: hub, every: every, log: log, serving: ctxtime.NewMutex()}
}

// Samples are those of the last hour.
func (m *Meter) Samples() []api.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.samples)
}

// Enter says that a shell, an editor or a copy is inside the job, until the function that it returns is called.
func (m *Meter) Enter() (leave func()) {
	m.inside.Add(1)
	return func() { m.inside.Add(-1) }
}

// Serve measures until ctx ends. That of an earlier attempt may still be about to end.
func (m *Meter) Serve(ctx context.Context) {
	if m.serving.Lock(ctx) != nil {
		return
	}
	defer m.serving.Unlock()
	defer m.stop()
	m.note(func(i *idle) { i.use(time.Now()) }) // what was before is not known
	for {
		looked, changed := m.hub.looking(m.session)
		m.measure(ctx, looked)
		select {
		case <-changed:
		case <-time.After(time.Until(m.added.Add(m.interval(looked)))):
		case <-ctx.Done():
			return
		}
	}
}

// interval is how far apart samples are.
func (m *Meter) interval(looked bool) time.Duration {
	switch {
	case !looked:
		return trafficEvery
	case m.first:
		return min(m.every, secondReading)
	default:
		return m.every
	}
}

// measure adds a sample if one is due.
func (m *Meter) measure(ctx context.Context, looked bool) {
	m.setRun()
	u := m.traffic()
	due := u.Time.Sub(m.added) >= m.interval(looked)
	check := m.checkDue(u.Time)
	if looked && due || check {
		m.measureJob(ctx, &u)
		m.judge(ctx, u, check)
	}
	if !m.idle.noticed {
		m.source.SetIdle("") // it may be used again, and the notice is withdrawn
	}
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
	m.mu.Lock()
	m.samples = addSample(m.samples, u)
	m.mu.Unlock()
	m.hub.publish(u)
}

// setRun takes in that the session's job has begun another run, or is another one.
func (m *Meter) setRun() {
	run := m.source.Run()
	if run == m.run {
		return
	}
	m.stop()
	m.measured = measured{run: run}
	if run == nil {
		return
	}
	ref := run.Job().Ref()
	m.note(func(i *idle) {
		i.use(time.Now())
		if i.job != ref {
			*i = idle{job: ref, used: i.used, bytes: i.bytes}
			m.samples = nil
		}
	})
}

// stop ends the program inside the job.
func (m *Meter) stop() {
	if m.sampler != nil {
		m.sampler.close()
		m.sampler = nil
	}
}

// traffic is a sample of what is known without asking anybody. It also notes the signs of
// use among that.
func (m *Meter) traffic() api.Usage {
	in, out, conns := m.source.Traffic()
	u := api.Usage{Session: m.session, Time: time.Now(), BytesIn: in, BytesOut: out}
	m.note(func(i *idle) {
		bytes := u.BytesIn + u.BytesOut
		if conns > 0 || m.inside.Load() > 0 || bytes != i.bytes {
			i.use(u.Time)
		}
		i.bytes = bytes
	})
	return u
}

// measureJob adds what the job uses, or why that is not known.
func (m *Meter) measureJob(ctx context.Context, u *api.Usage) {
	if m.run == nil || !m.run.Connected() {
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
func (m *Meter) compare(r Reading, source api.UsageSource, now time.Time) {
	before := m.last
	if source != m.from {
		before = Reading{}
	}
	if source == api.UsageScheduler && r.Clock == before.Clock {
		return // the same answer again
	}
	m.first = source == api.UsageStep && now.Sub(m.lastAt) > recentReading
	if source == api.UsageScheduler && before.Clock == 0 {
		before = Reading{Clock: 1} // since the start of the job
	}
	m.cpu, m.span = nil, r.Clock-before.Clock
	if percent, known := r.Percent(before); known {
		m.cpu = &percent
	}
	m.last, m.from, m.lastAt = r, source, now
}

// read measures inside the job, where that is possible. Else, and where it fails, it takes what
// the scheduler has counted.
func (m *Meter) read(ctx context.Context) (Reading, api.UsageSource, error) {
	inside, err := m.run.CanEnter(ctx)
	if err != nil {
		return Reading{}, "", err
	}
	if inside && !time.Now().Before(m.retry) {
		r, err := m.readInside(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, api.ErrDown) {
			return r, api.UsageStep, err
		}
		m.log.Info("cannot measure the job", "session", m.session, "err", err)
		m.retry, m.problem = time.Now().Add(samplerRetry), err.Error()
	}
	r, err := m.run.Counted(ctx)
	if err != nil && inside {
		err = errors.New(m.problem)
	}
	return r, api.UsageScheduler, err
}

// readInside has the program inside the job measure, and starts it if need be.
func (m *Meter) readInside(ctx context.Context) (Reading, error) {
	if m.sampler == nil {
		machine, err := m.run.Machine(ctx, "")
		if err != nil {
			return Reading{}, err
		}
		if m.sampler, err = startSampler(ctx, machine, m.run.ID()); err != nil {
			return Reading{}, err
		}
	}
	r, err := m.sampler.read(ctx)
	if err != nil {
		m.stop()
		if !m.run.Connected() {
			err = api.ErrDown
		}
	}
	return r, err
}

// kept is how long what a job used is kept, and spacing how far apart at least
// the samples are that are kept.
const (
	kept    = time.Hour
	spacing = 20 * time.Second
)

// addSample adds a sample to those of the last hour. It replaces the last one if that is too close
// to the one before.
func addSample(list []api.Usage, u api.Usage) []api.Usage {
	if n := len(list); n > 1 && list[n-1].Time.Sub(list[n-2].Time) < spacing {
		list = list[:n-1]
	}
	list = append(list, u)
	return slices.DeleteFunc(list, func(x api.Usage) bool { return u.Time.Sub(x.Time) >= kept })
}
