package agent

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/home"
)

// model is a person with two laptops and one cluster, on a simulated clock and network. It does
// what people and networks do, in random order, and knows what may be submitted and what must
// have ended.
type model struct {
	t       *testing.T
	random  *rand.Rand
	cluster *modelCluster
	laptops []*modelLaptop
	since   time.Time
	job     string // the line in the configs with the job's name, by which a laptop adopts another's

	mu     sync.Mutex
	log    []string // what was done
	failed bool
}

// modelLaptop is an agent with its own files and its own way to the cluster.
type modelLaptop struct {
	m     *model
	name  string
	paths home.Paths
	ssh   string // its ssh config
	host  *simHost
	agent *Agent

	keep, section bool      // of its config
	kept          bool      // keep was on at some time: a session uses its new settings at its next up
	commands      int       // that wait for the session
	granted       time.Time // when the up was that permits a submission; zero: none does
	clicked       time.Time // when the up without a command was that does
	ended         time.Time // when a person last wanted all jobs ended, and none since; zero: not
	unheard       []string  // the jobs that its session, which is down, saw last when they waited or ran
}

const modelSession = "nb"

func newModel(t *testing.T, seed uint64, dialect modelDialect, keyFile string, key ssh.PublicKey) *model {
	t.Helper()
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 1)), since: time.Now()}
	m.cluster = &modelCluster{dialect: dialect, tags: map[string]*modelTag{}, numbers: 100, checks: m.checkSubmission}
	m.cluster.skew = []time.Duration{0, 0, -3 * time.Hour, 40 * time.Minute}[m.random.IntN(4)]
	m.cluster.limit = []time.Duration{40 * time.Minute, time.Hour}[m.random.IntN(2)]
	m.job = []string{"", "job = \"nb\"\n"}[m.random.IntN(2)]
	for i := range 1 + m.random.IntN(2) {
		l := &modelLaptop{m: m, name: fmt.Sprintf("laptop%d", i+1), section: true, keep: m.random.IntN(2) == 0}
		dir := t.TempDir()
		l.paths, l.ssh = home.In(dir), filepath.Join(dir, "ssh_config")
		l.host = newSimHost(t, "hpc", key, "")
		l.host.scheduler = func(script string) (string, string, int) { return m.cluster.run(l, script) }
		known := filepath.Join(dir, "known_hosts")
		m.write(known, l.host.Known("hpc"))
		m.write(l.ssh, fmt.Sprintf("Host *\n  User alice\n  IdentityFile %s\n  UserKnownHostsFile %s\n  StrictHostKeyChecking yes\n  IdentityAgent none\n", keyFile, known))
		if err := home.MakePrivate(l.paths.State); err != nil {
			t.Fatal(err)
		}
		l.writeConfig()
		l.start()
		m.laptops = append(m.laptops, l)
	}
	return m
}

func (m *model) write(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// sync makes what the cluster did visible here, and what is done here visible there. Nothing runs
// at the same time: the clock is simulated.
func (m *model) sync() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
}

func (m *model) sleep(d time.Duration) {
	m.sync()
	time.Sleep(d)
	synctest.Wait()
	m.sync()
}

func (m *model) did(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, fmt.Sprintf("%9s  ", time.Since(m.since).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (m *model) wrong(format string, args ...any) {
	m.did("WRONG: "+format, args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = true
}

// writeConfig writes the config. Without its section the session has another name.
func (l *modelLaptop) writeConfig() {
	name := modelSession
	if !l.section {
		name = "renamed"
	}
	l.kept = l.kept || l.keep
	l.m.write(l.paths.Config, fmt.Sprintf("[host.hpc]\nscheduler = %q\n[session.%s]\nhost = \"hpc\"\napp = \"shell\"\nsubmit = \"~/nb.sh\"\nkeep = %v\n%s", l.m.cluster.dialect.name(), name, l.keep, l.m.job))
}

// start runs an agent without its socket, which would hold the simulated clock.
func (l *modelLaptop) start() {
	l.m.t.Helper()
	a, err := New(Options{Paths: l.paths, Version: "test", SSHConfig: l.ssh, Limits: DefaultLimits(), Log: slog.New(slog.DiscardHandler), network: simNetwork(map[string]*simHost{"hpc": l.host})})
	if err != nil {
		l.m.t.Fatal(err)
	}
	a.ctx, a.server.stop = context.WithCancel(context.Background())
	a.hosts.Start(a.ctx, &a.work)
	a.sessions.restoreJobs()
	a.sessions.restore()
	a.work.Go(func() { a.report("submissions", a.sessions.settle(a.ctx)) })
	l.agent = a
}

func (l *modelLaptop) stop() {
	l.agent.server.stop()
	l.agent.hub.Close()
	l.agent.work.Wait()
}

// crash ends the agent with the state file of this moment, and starts another.
func (l *modelLaptop) crash() {
	state, err := os.ReadFile(l.paths.StateFile())
	l.stop()
	if err == nil {
		l.m.write(l.paths.StateFile(), string(state))
	}
	l.endPermit()
	l.commands = 0
	l.start()
}

// status is the session as the laptop shows it.
func (l *modelLaptop) status() api.Session {
	for _, s := range l.agent.server.status().Sessions {
		if s.Name == modelSession {
			return s
		}
	}
	return api.Session{}
}

// checkSubmission checks that a person, or keep, permits a submit command that begins. It holds
// the lock of the cluster.
func (m *model) checkSubmission(tag *modelTag) {
	l := tag.laptop
	m.did("%s submits %s", l.name, tag.tag)
	after, kept := strings.CutPrefix(tag.tag, "after-")
	if !kept {
		if l.granted.IsZero() || time.Since(l.granted) > time.Hour+time.Minute {
			m.wrong("nobody permitted %s", tag.tag)
		}
		l.endPermit()
		return
	}
	id, _, _ := strings.Cut(after, "-")
	var was *modelJob
	for _, j := range m.cluster.jobs {
		if number, _, _ := strings.Cut(j.id, "."); number == id && j.tag != nil {
			was = j
		}
	}
	due := keepAt(api.Job{Submitted: was.submitted, Start: was.start, End: was.start.Add(was.limit)}, DefaultLimits().KeepLead)
	switch {
	case !l.kept:
		m.wrong("%s follows a job although keep is off", tag.tag)
	case was.endedBy == l: // of another laptop's cancel it hears later, and the next job ends then
		m.wrong("%s follows a job that a person cancelled", tag.tag)
	case time.Now().Before(due.Add(-keepSlack)):
		m.wrong("%s is %s too early", tag.tag, time.Until(due))
	}
}

var modelWaits = []time.Duration{0, time.Second, 3 * time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 5 * time.Minute, 12 * time.Minute, 40 * time.Minute}

// act does one thing.
func (m *model) act() {
	l := m.laptops[m.random.IntN(len(m.laptops))]
	switch m.random.IntN(21) {
	case 0, 1, 2:
		l.up()
	case 3:
		l.down(false)
	case 4, 5:
		l.down(true)
	case 6:
		l.cancel()
	case 7:
		l.extend()
	case 8:
		m.did("%s loses its network", l.name)
		l.host.unreachable(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)})
	case 9, 10:
		l.restore()
	case 11:
		m.did("the connection of %s breaks", l.name)
		l.host.restart()
		l.host.unreachable(nil)
	case 12:
		m.did("the agent of %s crashes", l.name)
		l.crash()
	case 13:
		l.edit()
	case 14, 15, 16:
		m.oddSubmission()
		if m.random.IntN(2) == 0 {
			l.up()
		}
	case 17:
		m.endJob()
	case 18, 19:
		l.awaitSuccessor()
	case 20:
		l.upDuringDown()
	}
	wait := modelWaits[m.random.IntN(len(modelWaits))]
	m.sleep(wait)
}

func (l *modelLaptop) up() {
	l.granted, l.ended = time.Now(), time.Time{}
	waiter := ""
	if l.m.random.IntN(2) == 0 {
		waiter = "command"
		l.agent.server.waiters.Enter(waiter)
		l.commands++
	} else {
		l.clicked = l.granted
	}
	if !l.section {
		l.endPermit()
	}
	_, err := l.agent.server.up(context.Background(), api.UpRequest{Session: modelSession, Waiter: waiter})
	l.m.sync()
	l.m.did("%s: up, waiting %v: %v", l.name, waiter != "", err)
	if e, ok := asAPI(err); ok && e.Code == api.CodeConfig {
		l.m.t.Fatal(err)
	}
	if err != nil {
		l.endPermit()
	}
}

func (l *modelLaptop) endPermit() { l.granted, l.clicked = time.Time{}, time.Time{} }

// leave ends the commands that wait.
func (l *modelLaptop) leave() {
	for ; l.commands > 0; l.commands-- {
		l.agent.server.waiterLeft("command")
	}
	synctest.Wait() // a submission may have begun just before
	l.granted = l.clicked
}

func (l *modelLaptop) down(cancel bool) {
	patience := []time.Duration{2 * time.Second, time.Minute, 15 * time.Minute}[l.m.random.IntN(3)]
	ctx, stop := context.WithTimeout(context.Background(), patience) // then Ctrl-C
	defer stop()
	before := time.Now()
	res, err := l.agent.server.handleDown(ctx, api.DownRequest{Session: modelSession, Cancel: cancel})
	l.m.did("%s: down, cancel %v, after %v: %v", l.name, cancel, time.Since(before), err)
	l.endPermit()
	if cancel && (err != nil || len(res.Sessions) > 0) && !unknownSession(err) {
		l.ended = before
		if err == nil {
			l.m.checkEnded(l, "right after down --cancel")
		}
	}
}

func unknownSession(err error) bool {
	e, ok := asAPI(err)
	return ok && e.Code == api.CodeUnknownSession
}

// cancel is `tunctl cancel` of the session's job.
func (l *modelLaptop) cancel() {
	s := l.status()
	if s.Job == nil || s.Job.State.Ended() {
		return
	}
	l.m.cluster.mu.Lock()
	now := l.m.cluster.find(s.Job.ID)
	l.m.cluster.mu.Unlock()
	if now == nil || now.tag == nil {
		return // the person sees that it is another job
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	job, err := l.agent.server.cancelJob(ctx, "hpc", s.Job.ID)
	l.m.did("%s: cancel job %s: %s, %v", l.name, s.Job.ID, job.State, err)
	if err == nil && !job.State.Ended() {
		l.endPermit()
	}
}

func (l *modelLaptop) extend() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	_, err := l.agent.server.handleExtend(ctx, api.ExtendRequest{Session: modelSession, Seconds: 3 * 3600})
	l.m.did("%s: extend: %v", l.name, err)
}

func (l *modelLaptop) restore() {
	l.m.did("%s has its network", l.name)
	l.host.unreachable(nil)
	l.agent.pool.NetworkChanged()
}

// edit changes the config: keep, or the name of the section.
func (l *modelLaptop) edit() {
	if l.m.random.IntN(2) == 0 {
		l.keep = !l.keep
	} else {
		l.section = !l.section
	}
	l.m.did("%s: keep is %v, the section is there: %v", l.name, l.keep, l.section)
	l.writeConfig()
	l.agent.reload()
}

// oddSubmission has the next submit command behave in an odd way.
func (m *model) oddSubmission() {
	odd := []modelSubmit{
		{name: "slow", answers: 8 * time.Second, appears: 8 * time.Second},
		{name: "hangs, and makes the job", answers: 2 * time.Minute, appears: 100 * time.Second, lost: true},
		{name: "hangs, and makes none", answers: 2 * time.Minute, appears: -1, lost: true},
		{name: "times out, and the job comes later", lost: true, appears: 90 * time.Second},
		{name: "times out, and the job comes much later", lost: true, appears: 8 * time.Minute},
		{name: "times out, and makes none", lost: true, appears: -1},
		{name: "is refused", refused: true},
		{name: "loses its answer", cut: true},
		{name: "answers late into a lost connection", cut: true, answers: 20 * time.Second, appears: 20 * time.Second},
		{name: "never begins", notBegun: true},
		{name: "makes a job that fails before the answer", answers: 3 * time.Second, fails: true},
	}[m.random.IntN(11)]
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	m.cluster.next = append(m.cluster.next, odd)
	m.cluster.queue = []time.Duration{0, 10 * time.Second, 10 * time.Minute, 5 * time.Hour}[m.random.IntN(4)]
	m.did("the next submission %s; jobs wait %s", odd.name, m.cluster.queue)
}

// awaitSuccessor lets time pass until keep submits the next job, to which the next thing happens.
func (l *modelLaptop) awaitSuccessor() {
	if s := l.status(); s.Job == nil || s.Job.State.Ended() {
		l.up()
		l.m.sleep(30 * time.Second)
	}
	s := l.status()
	if s.Job == nil || s.Job.State != api.JobRunning {
		return
	}
	if l.m.random.IntN(2) == 0 {
		l.m.oddSubmission()
	}
	l.m.sleep(time.Until(keepAt(*s.Job, DefaultLimits().KeepLead).Add(10*time.Second - l.m.cluster.skew)))
	l.m.did("%s: the next job is due", l.name)
	[]func(){l.cancel, l.extend, l.m.endJob, l.crash, func() { l.down(true) }}[l.m.random.IntN(5)]()
}

// upDuringDown is an up while the cancel of a down takes long.
func (l *modelLaptop) upDuringDown() {
	l.m.cluster.setSlowCancel(20 * time.Second)
	defer l.m.cluster.setSlowCancel(0)
	var down sync.WaitGroup
	down.Go(func() {
		_, err := l.agent.server.handleDown(context.Background(), api.DownRequest{Session: modelSession, Cancel: true})
		l.m.did("%s: down behind an up: %v", l.name, err)
	})
	l.m.sleep(2 * time.Second)
	began := time.Now()
	if l.up(); time.Since(began) > 5*time.Second {
		l.m.wrong("the up waited %s for the cancel", time.Since(began))
	}
	down.Wait()
}

// endJob ends a job behind tunctl's back, and may give its number to another job of the person.
func (m *model) endJob() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	now := time.Now()
	for _, j := range m.cluster.jobs {
		if j.tag == nil || !j.live(now) {
			continue
		}
		m.cluster.end(j, []string{"FAILED", "COMPLETED", "CANCELLED"}[m.random.IntN(3)], nil)
		m.did("job %s ends: %s", j.id, j.how)
		// Schedulers use a number again after millions of others, so a laptop knows the job by then.
		known := j.tag.laptop.agent.store.Session(modelSession).Submissions.Of(api.Job{ID: j.id}).Job != nil
		if m.random.IntN(2) == 0 && known {
			again := &modelJob{id: j.id, name: "production", script: "/home/alice/production.sh", submitted: now.Add(time.Minute), start: now.Add(time.Minute), limit: 100 * time.Hour}
			m.cluster.jobs = append(m.cluster.jobs, again)
			m.did("job %s is another one soon", j.id)
		}
		return
	}
}

// finish lets everything settle, and checks what is left.
func (m *model) finish() {
	for _, l := range m.laptops {
		l.restore()
		l.leave()
	}
	m.sleep(15 * time.Minute)
	synctest.Wait()
	for _, l := range m.laptops { // a host may need a person by now
		if l.agent.pool.Host("hpc").Status().State != api.HostUp {
			_, err := l.agent.server.handleLogin(context.Background(), api.LoginRequest{Host: "hpc"})
			m.did("%s: login: %v", l.name, err)
		}
	}
	m.sleep(3 * time.Minute)
	synctest.Wait()
	m.check()
	for _, l := range m.laptops {
		l.stop()
	}
}

func (m *model) check() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	now := time.Now()
	shown := map[string]bool{}
	for _, l := range m.laptops {
		s := l.status()
		jobs := s.Others
		for _, j := range []*api.Job{s.Job, s.Next} {
			if j != nil {
				jobs = append(jobs, *j)
			}
		}
		for _, j := range jobs {
			shown[j.ID] = true
			if s.State == api.SessionDown && !j.State.Ended() {
				l.unheard = append(l.unheard, j.ID)
			}
			if job := m.cluster.find(j.ID); job != nil && job.tag == nil && j.Name != "nb" {
				m.wrong("%s shows job %s of the person as its own: %+v", l.name, j.ID, j)
			}
		}
		m.did("%s shows %s: %s; %d jobs, pending %v", l.name, s.State, s.Cause, len(jobs), s.Pending)
	}
	for _, j := range m.cluster.jobs {
		switch {
		case j.tag == nil && j.endedBy != nil:
			m.wrong("job %s of the person was cancelled", j.id)
		case j.tag == nil || !j.live(now):
		case !shown[j.id]:
			m.wrong("job %s of %s runs, and nobody knows", j.id, j.tag.laptop.name)
		default:
			m.checkSuccessor(j, now)
		}
	}
	m.cluster.mu.Unlock()
	for _, l := range m.laptops {
		m.checkEnded(l, "in the end")
	}
	m.cluster.mu.Lock()
	for _, script := range m.cluster.unknown {
		m.wrong("a script that the cluster does not know: %s", script)
	}
}

// checkSuccessor checks that a live job that follows another still should. A laptop whose session
// is down does not ask the scheduler, and may not have heard of another laptop's cancel.
func (m *model) checkSuccessor(j *modelJob, now time.Time) {
	after, kept := strings.CutPrefix(j.tag.tag, "after-")
	if !kept {
		return
	}
	id, _, _ := strings.Cut(after, "-")
	for _, was := range m.cluster.jobs {
		number, _, _ := strings.Cut(was.id, ".")
		if number != id || was.tag == nil {
			continue
		}
		due := keepAt(api.Job{Submitted: was.submitted, Start: was.start, End: was.start.Add(was.limit)}, DefaultLimits().KeepLead)
		switch {
		case was.endedBy != nil && !slices.Contains(j.tag.laptop.unheard, was.id):
			m.wrong("job %s follows job %s, which a person cancelled", j.id, was.id)
		case was.extended && was.live(now) && now.Before(due.Add(-keepSlack)):
			m.wrong("job %s runs beside job %s, which was extended", j.id, was.id)
		}
	}
}

// checkEnded checks that no job of a laptop is left that a person wanted ended.
func (m *model) checkEnded(l *modelLaptop, when string) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	for _, j := range m.cluster.jobs {
		if !l.ended.IsZero() && j.tag != nil && j.tag.laptop == l && j.tag.at.Before(l.ended) && j.live(time.Now()) {
			m.wrong("%s: job %s of %s is left", when, j.id, l.name)
		}
	}
}

// modelSequences is how many sequences are tried; `make campaign` sets TUNCTL_SEQUENCES.
func modelSequences(t *testing.T) (first, n uint64) {
	t.Helper()
	read := func(name string, otherwise uint64) uint64 {
		if text := os.Getenv(name); text != "" {
			v, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		return otherwise
	}
	return read("TUNCTL_SEED", 1), read("TUNCTL_SEQUENCES", 90)
}

// TestEveryChargedJobIsKnown does random things to two laptops and a cluster. TUNCTL_SEED and
// TUNCTL_SEQUENCES=1 repeat one sequence.
func TestEveryChargedJobIsKnown(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no ssh that would be asked for settings
	if shm := "/dev/shm"; os.Getenv("TMPDIR") == "" {
		if info, err := os.Stat(shm); err == nil && info.IsDir() {
			t.Setenv("TMPDIR", shm) // thousands of small files are written, and synced
		}
	}
	keyFile, key := sshtest.NewKeyFile(t)
	dialects := []modelDialect{modelSlurm{}, modelPBS{}, modelGridEngine{}}
	first, n := modelSequences(t)
	t.Logf("seeds %d to %d", first, first+n-1)
	for seed := first; seed < first+n; seed++ {
		var m *model
		synctest.Test(t, func(t *testing.T) {
			m = newModel(t, seed, dialects[seed%uint64(len(dialects))], keyFile, key)
			for range 4 + m.random.IntN(5) {
				m.act()
			}
			m.finish()
		})
		text := fmt.Sprintf("seed %d, %s:\n%s", seed, m.cluster.dialect.name(), strings.Join(m.log, "\n"))
		if m.failed {
			t.Fatal(text)
		}
		if n == 1 {
			t.Log(text)
		}
	}
}

// withModel runs a test on one laptop of a model, whose cluster is Slurm without skew.
func withModel(t *testing.T, test func(m *model, l *modelLaptop)) {
	t.Helper()
	withModelOf(t, modelSlurm{}, test)
}

func withModelOf(t *testing.T, dialect modelDialect, test func(m *model, l *modelLaptop)) {
	t.Setenv("PATH", t.TempDir())
	keyFile, key := sshtest.NewKeyFile(t)
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dialect, keyFile, key)
		m.cluster.skew, m.cluster.limit = 0, time.Hour
		test(m, m.laptops[0])
		m.finish()
		if m.failed {
			t.Error(strings.Join(m.log, "\n"))
		}
	})
}

func (l *modelLaptop) mustUp() {
	l.m.t.Helper()
	l.up()
	l.m.sync()
	if l.granted.IsZero() {
		l.m.t.Fatal(strings.Join(l.m.log, "\n"))
	}
	l.m.sleep(30 * time.Second)
}

func TestAnUpDoesNotWaitForASlowCancel(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		first := m.cluster.jobs[0]
		m.cluster.setSlowCancel(20 * time.Second)
		ended := make(chan error)
		go func() {
			_, err := l.agent.server.handleDown(context.Background(), api.DownRequest{Session: modelSession, Cancel: true})
			ended <- err
		}()
		m.sleep(2 * time.Second)
		began := time.Now()
		l.up()
		if took := time.Since(began); took > time.Second {
			m.t.Errorf("the up took %s", took)
		}
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
		m.sleep(time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID == first.id || first.live(time.Now()) {
			m.t.Errorf("the first job is live: %v; the session has %+v", first.live(time.Now()), s.Job)
		}
	})
}

func TestAnUpAsksTheSchedulerAtOnce(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		m.sleep(5 * time.Minute)
		listed := len(m.cluster.lists)
		l.up()
		m.sleep(DefaultLimits().Jobs.QueryMin)
		if len(m.cluster.lists) == listed {
			m.t.Error("no query of the scheduler")
		}
		if l.status().MaySubmit {
			m.t.Error("the answer, which changed nothing, has not settled the permission")
		}
	})
}

func TestAJobThatIsFoundSettlesThePermission(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.cluster.queue = 5 * time.Hour
		l.mustUp()
		l.down(false)
		l.up()
		m.sleep(time.Second)
		if s := l.status(); s.Job == nil || s.MaySubmit {
			m.t.Errorf("job %+v, may submit %v", s.Job, s.MaySubmit)
		}
		m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil)
		m.sleep(time.Minute)
		if len(m.cluster.jobs) != 1 {
			m.t.Error("the job that was cancelled came back")
		}
	})
}

func TestASessionWithSeveralJobsToChooseFromHasNone(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.job = "job = \"nb\"\n"
		l.writeConfig()
		l.agent.reload()
		for _, id := range []string{"7", "8"} {
			m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: id, name: "nb", script: "/home/alice/nb.sh", submitted: time.Now(), start: time.Now(), limit: time.Hour})
		}
		l.mustUp()
		if s := l.status(); len(s.Candidates) != 2 || s.Job != nil || len(l.agent.store.Session(modelSession).Submissions) != 0 {
			m.t.Errorf("%s: candidates %+v, job %+v, submissions %+v", s.State, s.Candidates, s.Job, l.agent.store.Session(modelSession).Submissions)
		}
	})
}

func TestACancelThatCannotBeMadeIsMadeLater(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		l.host.unreachable(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)})
		m.sleep(5 * time.Minute)
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		_, err := l.agent.server.handleDown(ctx, api.DownRequest{Session: modelSession, Cancel: true})
		if e, ok := asAPI(err); !ok || !strings.Contains(e.Message, "job 101 was not ended yet") || !strings.Contains(e.Hint, "tunctl jobs hpc") {
			m.t.Errorf("err = %v", err)
		}
		l.endPermit()
		l.crash()
		l.restore()
		if _, err := l.agent.server.handleLogin(context.Background(), api.LoginRequest{Host: "hpc"}); err != nil {
			m.t.Error(err)
		}
		m.sleep(2 * time.Minute)
		if m.cluster.jobs[0].live(time.Now()) || l.status().Job != nil {
			m.t.Errorf("the job was not ended: %+v", l.status())
		}
	})
}

func TestACancelledJobIsLookedAfterUntilItHasEnded(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		m.cluster.slowEnd = 90 * time.Second // the down may wait a minute for its turn to ask the scheduler
		if _, err := l.agent.server.handleDown(context.Background(), api.DownRequest{Session: modelSession, Cancel: true}); err != nil {
			m.t.Fatal(err)
		}
		l.granted = time.Time{}
		if s := l.status(); s.Cause != "job 101 is about to end" {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
		m.sleep(3 * time.Minute)
		if s := l.status(); s.Job != nil {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
	})
}

func TestASuccessorWhoseAnswerWasLostIsNotOrphaned(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.keep = true
		l.writeConfig()
		l.agent.reload()
		l.mustUp()
		m.cluster.next = []modelSubmit{{name: "loses its answer", cut: true}}
		m.sleep(time.Until(m.cluster.jobs[0].start.Add(45*time.Minute + 10*time.Second))) // a quarter of an hour before its end
		if len(m.cluster.jobs) != 2 || l.status().Next != nil {
			m.t.Fatalf("%d jobs, next %+v", len(m.cluster.jobs), l.status().Next)
		}
		m.cluster.end(m.cluster.jobs[0], "COMPLETED", nil)
		m.sleep(5 * time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID != m.cluster.jobs[1].id {
			m.t.Errorf("%s: %s; job %+v, next %+v", s.State, s.Cause, s.Job, s.Next)
		}
	})
}

func TestASubmissionInDoubtIsFoundBelowNewerJobs(t *testing.T) {
	withModelOf(t, modelPBS{}, func(m *model, l *modelLaptop) {
		m.cluster.queue = 5 * time.Hour
		m.cluster.next = []modelSubmit{{name: "times out, and the job comes later", lost: true, appears: 90 * time.Second}}
		l.mustUp()
		for i := range 5 {
			m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: fmt.Sprintf("%d.pbs01", 900+i), name: "production", script: "/home/alice/production.sh", submitted: time.Now().Add(time.Minute), start: time.Now(), limit: 100 * time.Hour})
		}
		m.sleep(20 * time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID != m.cluster.jobs[0].id {
			m.t.Errorf("%s: %s; job %+v, pending %v", s.State, s.Cause, s.Job, s.Pending)
		}
	})
}

func TestAnotherLaptopsJobOfTheSameNameSettlesNoSubmissionInDoubt(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.job = "job = \"nb\"\n"
		l.writeConfig()
		l.agent.reload()
		m.cluster.next = []modelSubmit{{name: "times out, and the job comes later", lost: true, appears: 5 * time.Minute}}
		l.mustUp()
		m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: "50", name: "nb", script: "/home/alice/.tunctl/nb-other/nb.sh", submitted: time.Now(), start: time.Now(), limit: 100 * time.Hour})
		l.up()
		m.sleep(10 * time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID != "50" || len(s.Others) != 1 || s.Others[0].ID != "101" {
			m.t.Errorf("%s: %s; job %+v, others %+v", s.State, s.Cause, s.Job, s.Others)
		}
	})
}

func TestAJobWithTheNumberOfTheSessionsIsNotExtended(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		m.cluster.end(m.cluster.jobs[0], "FAILED", nil)
		other := &modelJob{id: m.cluster.jobs[0].id, name: "production", script: "/home/alice/production.sh", submitted: time.Now(), start: time.Now(), limit: 100 * time.Hour}
		m.cluster.jobs = append(m.cluster.jobs, other)
		if _, err := l.agent.server.handleExtend(context.Background(), api.ExtendRequest{Session: modelSession, Seconds: 3600}); err == nil || other.extended {
			m.t.Errorf("%v, extended %v", err, other.extended)
		}
	})
}

func TestAnUpOfARemovedSectionEndsThePermissionOfTheOneBefore(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "never begins", notBegun: true}}
		l.up()
		m.sleep(5 * time.Second)
		l.section = false
		l.writeConfig()
		l.agent.reload()
		l.up()
		m.sleep(5 * time.Minute)
		if n := len(m.cluster.jobs); n != 0 {
			m.t.Errorf("%d jobs", n)
		}
	})
}

func TestTheSuccessorOfACancelledOrExtendedJobIsCancelled(t *testing.T) {
	for name, act := range map[string]func(*modelLaptop){"cancelled": (*modelLaptop).cancel, "extended": (*modelLaptop).extend} {
		t.Run(name, func(t *testing.T) {
			withModel(t, func(m *model, l *modelLaptop) {
				l.keep = true
				l.writeConfig()
				l.agent.reload()
				l.mustUp()
				m.cluster.queue = 5 * time.Hour
				m.sleep(time.Until(m.cluster.jobs[0].start.Add(46 * time.Minute)))
				if len(m.cluster.jobs) != 2 || l.status().Next == nil {
					m.t.Fatalf("%d jobs, next %+v", len(m.cluster.jobs), l.status().Next)
				}
				act(l)
				m.sleep(2 * time.Minute)
				if s := l.status(); m.cluster.jobs[1].live(time.Now()) || s.Next != nil {
					m.t.Errorf("%s: next %+v\n%s", s.State, s.Next, strings.Join(m.log, "\n"))
				}
			})
		})
	}
}

func TestKeepSubmitsNothingAfterAJobThatWasJustCancelled(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.keep = true
		l.writeConfig()
		l.agent.reload()
		l.mustUp()
		m.cluster.slowEnd = 5 * time.Minute // the scheduler shows it as running for a while
		due := keepAt(*l.status().Job, DefaultLimits().KeepLead)
		m.sleep(time.Until(due.Add(-10 * time.Second)))
		l.cancel()
		m.sleep(2 * time.Minute)
		if n := len(m.cluster.jobs); n != 1 {
			m.t.Errorf("%d jobs\n%s", n, strings.Join(m.log, "\n"))
		}
	})
}
