package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/gateway"
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

// Source is the session that a [Meter] measures. The agent's session is one.
type Source interface {
	// Run is the current run of the session's job; nil: none runs. Another run is another value.
	Run() Run
	// Traffic is what the session's forwards have relayed in bytes, and how many connections
	// they have now.
	Traffic() (in, out, conns int64)
	// IdleAfter is after how long the user is told that the job is idle; 0: never.
	IdleAfter() time.Duration
	// PageUsed is when the page of the job was last used; zero: it has none that tells.
	PageUsed(ctx context.Context) (time.Time, error)
	// SetIdle takes in that the job is idle, in words for the user, or with "" that it is not.
	SetIdle(text string)
}

// Run is one run of a job. The agent's nodes of a job are one.
type Run interface {
	Job() api.Job
	// ID is the job's for the program that measures inside it.
	ID() string
	// Nodes is how many nodes the job has.
	Nodes() int
	// Connected reports whether the host responds, as far as is known.
	Connected() bool
	// CanEnter reports whether the job can be measured inside.
	CanEnter(ctx context.Context) (bool, error)
	// Machine is a node of the job; "" is the one of its server.
	Machine(ctx context.Context, which string) (gateway.Machine, error)
	// Counted is what the scheduler has counted.
	Counted(ctx context.Context) (Reading, error)
}

// Hub knows who looks at what jobs use, and gives them each sample.
type Hub struct {
	mu      sync.Mutex
	streams map[chan api.Usage]string // the session that each client looks at; "": all
	changed chan struct{}             // closed when one comes or goes
}

// hubBuffer is how many samples may wait for a slow client.
const hubBuffer = 64

// NewHub returns a hub that nobody looks at yet.
func NewHub() *Hub {
	return &Hub{streams: map[chan api.Usage]string{}, changed: make(chan struct{})}
}

// Subscribe returns the samples of a session from now on, of all sessions for "". Until
// Unsubscribe, somebody looks.
func (h *Hub) Subscribe(session string) chan api.Usage {
	samples := make(chan api.Usage, hubBuffer)
	h.change(func() { h.streams[samples] = session })
	return samples
}

// Unsubscribe ends a subscription.
func (h *Hub) Unsubscribe(samples chan api.Usage) { h.change(func() { delete(h.streams, samples) }) }

func (h *Hub) change(streams func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	streams()
	close(h.changed)
	h.changed = make(chan struct{})
}

// looking reports whether somebody looks at a session, and returns the channel that is
// closed when that may have changed.
func (h *Hub) looking(session string) (looked bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.streams {
		looked = looked || at == "" || at == session
	}
	return looked, h.changed
}

// publish gives a sample to everybody who looks at its session. It drops what a slow client
// has no room for.
func (h *Hub) publish(u api.Usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for samples, at := range h.streams {
		if at == "" || at == u.Session {
			select {
			case samples <- u:
			default:
			}
		}
	}
}

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
