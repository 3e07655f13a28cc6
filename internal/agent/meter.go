package agent

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/agent/facts"
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
	if m.session.known().Idle && !m.idle.noticed { // it is used again, and the notice withdrawn
		m.session.change(func(f *facts.Facts) { f.Idle = false })
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
	m.log.add(u)
	m.session.agent.usage.publish(u)
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
	r := usage.Reading{Clock: counted.Elapsed, CPU: counted.CPU, CPUs: counted.CPUs, Memory: counted.Memory, MemoryLimit: counted.MemoryLimit}
	if r.Clock == 0 && !job.Start.IsZero() {
		r.Clock = max(0, counted.At.Sub(job.Start))
	}
	return r, api.UsageScheduler, err
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

// sampler is the program that measures inside a job. It prints a reading when it is asked,
// and ends with its channel.
type sampler struct {
	channel ssh.Channel
	out     *bufio.Reader // what it prints
}

const (
	// samplerStart bounds the start of the program, which may need a job step first.
	samplerStart = 45 * time.Second
	// samplerRead bounds one reading: nvidia-smi can take seconds.
	samplerRead = 30 * time.Second
	// maxReading is how long what the program prints may be.
	maxReading = 64 << 10
)

var (
	errSamplerEnded = errors.New("the program that measures the job has ended")
	errSamplerSlow  = errors.New("the node does not respond in time")
)

// startSampler starts the program on a machine.
func startSampler(ctx context.Context, m machine, job string) (*sampler, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerStart, errSamplerSlow)
	defer cancel()
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	s := &sampler{channel: ch, out: bufio.NewReader(ch)}
	_, err = s.await(ctx, func() (r usage.Reading, err error) {
		ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{usage.Command}))
		if err == nil && !ok {
			err = errors.New("no command may be run there")
		}
		if err == nil {
			_, err = io.WriteString(ch, usage.Input(job))
		}
		return r, err
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// await returns what do returns, which ends with the channel. A node that does not respond
// must not hold the meter: if ctx ends first, the channel is closed and do left to its end.
func (s *sampler) await(ctx context.Context, do func() (usage.Reading, error)) (usage.Reading, error) {
	type result struct {
		reading usage.Reading
		err     error
	}
	results := make(chan result, 1)
	go func() {
		r, err := do()
		results <- result{r, err}
	}()
	select {
	case r := <-results:
		return r.reading, r.err
	case <-ctx.Done():
		s.close()
		return usage.Reading{}, context.Cause(ctx)
	}
}

// read has the program measure once. After an error the program is of no use.
func (s *sampler) read(ctx context.Context) (usage.Reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerRead, errSamplerSlow)
	defer cancel()
	return s.await(ctx, func() (usage.Reading, error) {
		_, err := io.WriteString(s.channel, "\n")
		for text := ""; err == nil; {
			var line string
			if line, err = api.ReadLine(s.out, maxReading-len(text)); err == nil && strings.TrimSpace(line) == usage.End {
				return usage.Parse(text)
			}
			text += line
		}
		return usage.Reading{}, errSamplerEnded
	})
}

// close ends the program. It waits for nobody: the node may not respond.
func (s *sampler) close() { _ = s.channel.Close() }

// usageKept is how long what a job used is kept, and usageSpacing how far apart at least
// the samples are that are kept.
const (
	usageKept    = time.Hour
	usageSpacing = 20 * time.Second
)

// usageHub knows who looks at what jobs use, and gives them each sample.
type usageHub struct {
	mu      sync.Mutex
	streams map[chan api.Usage]string // the session that each client looks at; "": all
	changed chan struct{}             // closed when one comes or goes
}

// usageBuffer is how many samples may wait for a slow client.
const usageBuffer = 64

func newUsageHub() *usageHub {
	return &usageHub{streams: map[chan api.Usage]string{}, changed: make(chan struct{})}
}

func (h *usageHub) add(session string) chan api.Usage {
	samples := make(chan api.Usage, usageBuffer)
	h.change(func() { h.streams[samples] = session })
	return samples
}

func (h *usageHub) remove(samples chan api.Usage) { h.change(func() { delete(h.streams, samples) }) }

func (h *usageHub) change(streams func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	streams()
	close(h.changed)
	h.changed = make(chan struct{})
}

// looking reports whether somebody looks at a session, and returns the channel that is
// closed when that may have changed.
func (h *usageHub) looking(session string) (looked bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.streams {
		looked = looked || at == "" || at == session
	}
	return looked, h.changed
}

// publish gives a sample to everybody who looks at its session. It drops what a slow client
// has no room for.
func (h *usageHub) publish(u api.Usage) {
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

// usageLog is what a session's job used in the last hour.
type usageLog struct {
	mu      sync.Mutex
	samples []api.Usage
}

// add keeps a sample. It replaces the last one if that is too close to the one before.
func (l *usageLog) add(u api.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 1 && l.samples[n-1].Time.Sub(l.samples[n-2].Time) < usageSpacing {
		l.samples = l.samples[:n-1]
	}
	l.samples = append(l.samples, u)
	l.samples = slices.DeleteFunc(l.samples, func(x api.Usage) bool { return u.Time.Sub(x.Time) >= usageKept })
}

func (l *usageLog) all() []api.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.samples)
}

func (l *usageLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = nil
}

// handleUsage streams what the jobs of all sessions use, or that of one: first the samples
// of the last hour, then each new one. While it runs, somebody looks. With known=1 it ends
// after the first part, and nobody looks.
func (a *Agent) handleUsage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("session")
	if name != "" {
		if _, err := a.session(name); err != nil {
			fail(w, err)
			return
		}
	}
	known := r.URL.Query().Get("known") != ""
	var samples chan api.Usage
	if !known {
		samples = a.usage.add(name)
		defer a.usage.remove(samples)
	}
	out := newLines(w)
	sent := map[string]time.Time{} // by session, when the last sample was
	for _, s := range a.live() {
		if name != "" && name != s.name {
			continue
		}
		for _, u := range s.meter.log.all() {
			if out.send(u) != nil {
				return
			}
			sent[s.name] = u.Time
		}
	}
	if out.ctl.Flush() != nil || known { // the client knows now that the stream is open
		return
	}
	for {
		select {
		case u := <-samples:
			if u.Time.After(sent[u.Session]) && out.send(u) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
