package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/configs"
	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/home"
)

// model is the user with two laptops and one cluster, on a simulated clock and network. It does
// what people, networks, disks and schedulers do, in random order, and knows what may be submitted,
// what must be shown and what must have ended.
type model struct {
	t       *testing.T
	seed    uint64
	steps   uint64
	random  *rand.Rand // of this step: what one draws does not change the next
	cluster *modelCluster
	laptops []*modelLaptop
	since   time.Time
	job     string // a line in the config with the job's name, by which a laptop adopts another's
	keyFile string // of the user
	key     ssh.PublicKey

	jumped bool // the cluster's clock was set
	misled bool // the scheduler was wrong for longer than tunctl waits: in the end nothing is checked

	mu     sync.Mutex
	log    []string // what was done
	failed bool
}

// modelLaptop is an agent with its own files and its own way to the cluster.
type modelLaptop struct {
	*modelWish // of the session nb

	m     *model
	name  string
	paths home.Paths
	ssh   string // its ssh config
	known string // its known_hosts
	host  *simHost
	agent *Agent

	keep, section bool                  // of its config
	address       string                // of the login node
	full          bool                  // its disk
	offline       bool                  // it has lost its network
	wishes        map[string]*modelWish // by session
	hand          *modelJob             // that it has attached
	submits       atomic.Int32          // how many `tunctl submit` run
	troubled      time.Time             // when something last kept it from knowing the state of jobs

	mu     sync.Mutex
	died   time.Time // when it was to crash; zero: not
	corpse string    // the state file of then
}

// modelWish is what the user wants of a session.
type modelWish struct {
	kept     bool      // keep was on at some time: a session uses its new settings at its next up
	commands []func()  // that wait for the session; each ends one
	asked    time.Time // when the last up was
	granted  time.Time // when the up was that permits a submission; zero: none does
	clicked  time.Time // when the up without a command was that does
	ended    time.Time // when the user last wanted all jobs ended, and none since; zero: not
	unheard  []string  // the jobs that the session, which is down, saw last when they waited or ran
}

// The sessions. The array is one on Slurm, and is never kept; the second one is made by --as, the last
// one by attach.
const (
	modelSession = "nb"
	modelArray   = "lab"
	modelSecond  = "nb2"
	modelHand    = "hand"
)

var modelSessions = []string{modelSession, modelArray, modelSecond, modelHand}

func newModel(t *testing.T, seed uint64, dialect modelDialect, keyFile string, key ssh.PublicKey) *model {
	t.Helper()
	m := &model{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), since: time.Now(), keyFile: keyFile, key: key}
	m.cluster = &modelCluster{dialect: dialect, tags: map[string]*modelTag{}, numbers: 100, checks: m.checkSubmission}
	m.cluster.skew = pick(m, 0, 0, -3*time.Hour, 40*time.Minute)
	m.cluster.limit = pick(m, 40*time.Minute, time.Hour)
	m.cluster.history = m.chance(3, 4)
	m.job = pick(m, "", "job = \"nb\"\n")
	for range 1 + m.random.IntN(2) {
		m.addLaptop()
	}
	return m
}

// addLaptop starts an agent on another laptop.
func (m *model) addLaptop() *modelLaptop {
	m.t.Helper()
	l := &modelLaptop{m: m, name: fmt.Sprintf("laptop%d", len(m.laptops)+1), section: true, keep: m.chance(1, 2), wishes: map[string]*modelWish{}, address: "hpc"}
	for _, name := range modelSessions {
		l.wishes[name] = &modelWish{}
	}
	l.modelWish = l.wishes[modelSession]
	dir := m.t.TempDir()
	l.paths, l.ssh, l.known = home.In(dir), filepath.Join(dir, "ssh_config"), filepath.Join(dir, "known_hosts")
	l.host = newSimHost(m.t, "hpc", m.key, "")
	l.host.scheduler = func(script string) (string, string, int) { return m.cluster.run(l, script) }
	m.write(l.known, l.host.Known("hpc")+l.host.Known("hpc2"))
	must(m.t, home.MakePrivate(l.paths.State))
	l.writeConfig()
	l.start()
	m.laptops = append(m.laptops, l)
	return l
}

func pick[T any](m *model, from ...T) T { return from[m.random.IntN(len(from))] }

func (m *model) chance(n, of int) bool { return m.random.IntN(of) < n }

func (m *model) write(path, text string) {
	m.t.Helper()
	must(m.t, os.WriteFile(path, []byte(text), 0o600))
}

// sync makes what the cluster did visible here, and what is done here visible there. Nothing runs
// at the same time: the clock is simulated.
func (m *model) sync() {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
}

// sleep lets time pass. An agent that died meanwhile is replaced.
func (m *model) sleep(d time.Duration) {
	m.sync()
	time.Sleep(d)
	synctest.Wait()
	m.sync()
	for _, l := range m.laptops {
		l.bury()
	}
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
	for _, name := range []string{modelSession, modelSecond} {
		l.wishes[name].kept = l.wishes[name].kept || l.keep
	}
	session := "[session.%s]\nhost = \"hpc\"\napp = \"shell\"\nsubmit = \"~/%[1]s.sh\"\nkeep = %v\n"
	l.m.write(l.paths.Config, fmt.Sprintf("[host.hpc]\nscheduler = %q\n[mcp]\nnode_hours = 8\n", l.m.cluster.dialect.name())+
		fmt.Sprintf(session, modelArray, false)+fmt.Sprintf(session, name, l.keep)+l.m.job)
	l.m.write(l.ssh, fmt.Sprintf("Host hpc\n  HostName %s\nHost *\n  User alice\n  IdentityFile %s\n  UserKnownHostsFile %s\n  StrictHostKeyChecking yes\n  IdentityAgent none\n", l.address, l.m.keyFile, l.known))
}

// reload writes the config, and has the agent read it.
func (l *modelLaptop) reload() {
	l.writeConfig()
	l.agent.Reload()
}

// start runs an agent without its socket, which would hold the simulated clock.
func (l *modelLaptop) start() {
	l.m.t.Helper()
	a, err := New(Options{Paths: l.paths, Version: "test", SSHConfig: l.ssh, Limits: session.DefaultLimits(), Log: slog.New(slog.DiscardHandler), network: simNetwork(map[string]*simHost{"hpc": l.host, "hpc2": l.host})})
	if err != nil {
		l.m.wrong("the agent of %s does not start: %v", l.name, err)
		l.m.write(l.paths.StateFile(), "{}")
		l.start()
		return
	}
	a.AttachedApp = configs.ShellApp // to wait for the client of a page would hold the simulated clock
	a.Ctx, a.server.stop = context.WithCancel(context.Background())
	a.Hosts.Start(a.Ctx, &a.Work)
	if a.Store.Unread() != nil {
		_ = a.Store.Save()
	}
	a.Sessions.RestoreJobs()
	a.Sessions.Restore()
	a.Work.Go(func() { a.Sessions.Settle(a.Ctx) })
	l.agent = a
}

func (l *modelLaptop) stop() {
	l.agent.server.stop()
	l.agent.Hub.Close()
	l.agent.Work.Wait()
}

// stateFile is the state as it is on the disk; "" if there is none.
func (l *modelLaptop) stateFile() string {
	path := l.paths.StateFile()
	if l.full {
		path = filepath.Join(l.paths.State+".away", filepath.Base(path))
	}
	text, _ := os.ReadFile(path)
	return string(text)
}

// crash ends the agent with the state file of this moment, and starts another. Of a full disk
// nothing is left that the agent had not written.
func (l *modelLaptop) crash() { l.crashWith(l.stateFile(), false) }

// crashWith is crash with another state file, whose copy may be lost, too.
func (l *modelLaptop) crashWith(state string, lost bool) {
	l.stop()
	if l.full {
		for _, w := range l.wishes {
			w.ended = time.Time{}
		}
		l.freeDisk()
	}
	if state != "" {
		l.m.write(l.paths.StateFile(), state)
	}
	if lost {
		_ = os.Remove(l.paths.StateFile() + ".bak")
	}
	for _, w := range l.wishes {
		w.endPermit()
		w.commands = nil
	}
	l.troubled = time.Now()
	l.start()
}

// die has the agent crash with the state file of this moment, as soon as nothing else is done.
func (l *modelLaptop) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.died, l.corpse = time.Now(), l.stateFile()
}

func (l *modelLaptop) bury() {
	l.mu.Lock()
	died, corpse := l.died, l.corpse
	l.died = time.Time{}
	l.mu.Unlock()
	if died.IsZero() {
		return
	}
	l.m.did("the agent of %s has crashed %s ago", l.name, time.Since(died))
	for _, w := range l.wishes {
		if w.ended.After(died) {
			w.ended = time.Time{}
		}
	}
	l.crashWith(corpse, false)
	l.host.unreachable(nil)
}

// status is the session nb as the laptop shows it.
func (l *modelLaptop) status() api.Session { return l.statusOf(modelSession) }

func (l *modelLaptop) statusOf(session string) api.Session {
	for _, s := range l.agent.server.status().Sessions {
		if s.Name == session {
			return s
		}
	}
	return api.Session{Name: session, State: api.SessionDown}
}

var modelWaits = []time.Duration{0, time.Second, 3 * time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 5 * time.Minute, 12 * time.Minute, 40 * time.Minute}

// modelActs is what happens, and how often.
var modelActs = []struct {
	weight int
	act    func(*modelLaptop)
}{
	{6, func(l *modelLaptop) { l.upOf(l.anySession()) }},
	{1, func(l *modelLaptop) { l.downOf(l.anyOpen(), false) }},
	{5, func(l *modelLaptop) { l.downOf(l.anyOpen(), true) }},
	{2, (*modelLaptop).cancel},
	{1, (*modelLaptop).extend},
	{2, (*modelLaptop).lose},
	{3, (*modelLaptop).restore},
	{2, (*modelLaptop).breakConnection},
	{2, func(l *modelLaptop) { l.m.did("the agent of %s crashes", l.name); l.crash() }},
	{2, (*modelLaptop).edit},
	{1, (*modelLaptop).editAddress},
	{4, func(l *modelLaptop) { l.m.oddSubmission() }},
	{6, func(l *modelLaptop) { l.m.oddSubmission(); l.upOf(l.anySession()) }},
	{2, func(l *modelLaptop) { l.m.endJob() }},
	{1, func(l *modelLaptop) { l.m.requeue() }},
	{4, (*modelLaptop).awaitSuccessor},
	{1, (*modelLaptop).upDuringDown},
	{5, func(l *modelLaptop) { l.m.tellLies() }},
	{2, (*modelLaptop).fillDisk},
	{2, (*modelLaptop).attach},
	{2, (*modelLaptop).submit},
	{3, (*modelLaptop).assistant},
	{1, (*modelLaptop).sleepForDays},
	{3, (*modelLaptop).upgrade},
	{1, func(l *modelLaptop) { l.m.jumpClock() }},
}

// act does one thing, and some time passes.
func (m *model) act() {
	m.steps++
	m.random = rand.New(rand.NewPCG(m.seed, m.steps))
	l := pick(m, m.laptops...)
	total := 0
	for _, a := range modelActs {
		total += a.weight
	}
	at := m.random.IntN(total)
	for _, a := range modelActs {
		if at -= a.weight; at < 0 {
			a.act(l)
			break
		}
	}
	m.sync()
	m.check("after the step")
	m.sleep(pick(m, modelWaits...))
	m.check("after a while")
	if m.chance(1, 3) {
		for _, l := range m.laptops {
			l.freeDisk()
		}
	}
}

func (l *modelLaptop) anySession() string {
	return pick(l.m, modelSession, modelSession, modelSession, modelArray, modelSecond)
}

// anyOpen is anySession, or the job that is attached.
func (l *modelLaptop) anyOpen() string {
	if l.hand != nil && l.m.chance(1, 2) {
		return modelHand
	}
	return l.anySession()
}

// connect connects the laptop, if it can be.
func (l *modelLaptop) connect() {
	if l.agent.Hosts.Pool.Host("hpc").Status().State == api.HostUp {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	_, err := l.agent.server.handleLogin(ctx, api.LoginRequest{Host: "hpc"})
	l.m.did("%s: login: %v", l.name, err)
	time.Sleep(10 * time.Second)
}

// up is an up of the session nb.
func (l *modelLaptop) up() { l.upOf(modelSession) }

func (l *modelLaptop) upOf(session string) {
	w := l.wishes[session]
	was := *w
	w.granted, w.asked = time.Now(), time.Now()
	req := api.UpRequest{Session: session}
	if session == modelSecond {
		req.Session, req.As = modelSession, modelSecond
	}
	if l.m.chance(1, 2) {
		req.Waiter = "command"
		w.commands = append(w.commands, l.agent.Sessions.Wait(req.Waiter))
	} else {
		w.clicked = w.granted
	}
	if l.m.chance(1, 4) {
		req.With = api.Choices{"hours": "1"}
	}
	_, err := l.agent.Sessions.Up(context.Background(), req)
	l.m.sync()
	l.m.did("%s: up %s, waiting %v, with %v: %v", l.name, session, req.Waiter != "", req.With, err)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeConfig {
		l.m.t.Fatal(err)
	}
	if unknownSession(err) {
		w.endPermit()
		return
	}
	if err != nil { // the permission of an up before it may still hold
		w.granted, w.clicked = was.granted, was.clicked
		return
	}
	w.ended = time.Time{}
}

func (w *modelWish) endPermit() { w.granted, w.clicked = time.Time{}, time.Time{} }

// leave ends the commands that wait.
func (l *modelLaptop) leave() {
	for _, w := range l.wishes {
		for _, left := range w.commands {
			left()
		}
		w.commands = nil
	}
	synctest.Wait() // a submission may have begun just before
	for _, w := range l.wishes {
		w.granted = w.clicked
	}
}

// patience is how long the user waits for a command until they press Ctrl-C.
func (m *model) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), pick(m, 2*time.Second, time.Minute, 15*time.Minute))
}

// down is a down of the session nb.
func (l *modelLaptop) down(cancel bool) { l.downOf(modelSession, cancel) }

func (l *modelLaptop) downOf(session string, cancel bool) {
	ctx, stop := l.m.patience()
	defer stop()
	l.downBy(session, cancel, func() (api.DownResponse, error) {
		return l.agent.server.handleDown(ctx, api.DownRequest{Session: session, Cancel: cancel})
	})
}

// downBy checks what a down ends and what it says.
func (l *modelLaptop) downBy(session string, cancel bool, down func() (api.DownResponse, error)) {
	before, status, over := time.Now(), l.agent.server.status(), l.ended()
	res, err := down()
	l.m.sync()
	l.m.did("%s: down %s, cancel %v, after %v: %v", l.name, session, cancel, time.Since(before), err)
	w := l.wishes[session]
	w.endPermit()
	if session == modelHand && err == nil {
		l.hand = nil
	}
	if !cancel || unknownSession(err) {
		return
	}
	w.ended = before
	if err == nil {
		l.m.checkEnded(l, session, "right after down --cancel")
		l.checkDownText(session, res, status, before, over)
	}
}

func unknownSession(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeUnknownSession
}

// cancel is `tunctl cancel` of a job that is shown.
func (l *modelLaptop) cancel() {
	var jobs []api.Job
	for _, s := range l.agent.server.status().Sessions {
		jobs = append(jobs, shownJobs(s)...)
	}
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool { return j.State.Ended() })
	if len(jobs) == 0 {
		return
	}
	id := pick(l.m, jobs...).ID
	var now *modelJob
	l.m.cluster.set(func() { now = l.m.cluster.find(id) })
	if now == nil || now.tag == nil {
		return // the user sees that it is another job
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	job, err := l.agent.server.cancelJob(ctx, "hpc", id)
	l.m.did("%s: cancel job %s: %s, %v", l.name, id, job.State, err)
	if err == nil && !job.State.Ended() {
		if w := l.wishes[now.tag.session]; w != nil {
			w.endPermit()
		}
	}
}

func (l *modelLaptop) extend() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	_, err := l.agent.server.handleExtend(ctx, api.ExtendRequest{Session: modelSession, Seconds: 3 * 3600})
	l.m.did("%s: extend: %v", l.name, err)
}

func (l *modelLaptop) lose() {
	l.m.did("%s loses its network", l.name)
	l.troubled, l.offline = time.Now(), true
	l.host.unreachable(errNoNetwork)
}

func (l *modelLaptop) restore() {
	l.m.did("%s has its network", l.name)
	l.troubled, l.offline = time.Now(), false
	l.host.unreachable(nil)
	l.agent.Hosts.Pool.NetworkChanged()
}

func (l *modelLaptop) breakConnection() {
	l.m.did("the connection of %s breaks", l.name)
	l.troubled, l.offline = time.Now(), false
	l.host.restart()
	l.host.unreachable(nil)
}

// edit changes the config: keep, or the name of the section.
func (l *modelLaptop) edit() {
	if l.m.chance(1, 2) {
		l.keep = !l.keep
	} else {
		l.section = !l.section
	}
	l.m.did("%s: keep is %v, the section is there: %v", l.name, l.keep, l.section)
	l.reload()
}

// editAddress has the login node by another name, which is the same cluster.
func (l *modelLaptop) editAddress() {
	l.address = map[string]string{"hpc": "hpc2", "hpc2": "hpc"}[l.address]
	l.m.did("%s: the address is %s", l.name, l.address)
	l.troubled = time.Now()
	l.writeConfig()
	l.agent.Hosts.Reload()
}

// oddSubmission has the next submit command behave in an odd way.
func (m *model) oddSubmission() {
	odd, queue := pick(m, modelSubmits...), pick(m, 0, 10*time.Second, 10*time.Minute, 5*time.Hour)
	m.cluster.set(func() { m.cluster.next, m.cluster.queue = append(m.cluster.next, odd), queue })
	m.did("the next submission %s; jobs wait %s", odd.name, queue)
}

// tellLies has the scheduler answer wrongly, or not at all. That it knows of no job it says once in a
// sequence, for less than a minute: a job of which it says so for longer is gone.
func (m *model) tellLies() {
	lie := pick(m, modelLies...)
	lasts, slowEnd := pick(m, lie.times...), pick(m, 0, 0, 90*time.Second, 6*time.Minute)
	m.cluster.set(func() {
		c := m.cluster
		if lie.denies() && c.denied || time.Now().Before(c.lieEnds) {
			lie.name = "answers as before"
			return
		}
		c.lie, c.lieEnds, c.slowEnd = lie, time.Now().Add(lasts), slowEnd
		c.denied = c.denied || lie.denies()
	})
	m.did("the scheduler %s for %s; a job that is cancelled ends after %s", lie.name, lasts, slowEnd)
	for _, l := range m.laptops {
		if ends := m.cluster.lieEnds; ends.After(l.troubled) {
			l.troubled = ends
		}
		if m.chance(1, 2) { // `tunctl status`
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			_, err := l.agent.server.handleRefresh(ctx, api.RefreshRequest{})
			stop()
			m.did("%s: status: %v", l.name, err)
		}
	}
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
	if l.m.chance(1, 2) {
		l.m.oddSubmission()
	}
	if l.m.chance(1, 6) {
		l.fillDisk()
	}
	l.m.sleep(time.Until(ledger.KeepAt(*s.Job, session.DefaultLimits().KeepLead).Add(10*time.Second - l.m.cluster.skew)))
	l.m.did("%s: the next job is due", l.name)
	pick(l.m, l.cancel, l.extend, l.m.endJob, l.crash, func() { l.down(true) })()
}

// upDuringDown is an up while the cancel of a down takes long.
func (l *modelLaptop) upDuringDown() {
	l.m.cluster.setSlowCancel(20 * time.Second)
	defer l.m.cluster.setSlowCancel(0)
	ctx, stop := context.WithTimeout(context.Background(), 15*time.Minute)
	defer stop()
	var down sync.WaitGroup
	down.Go(func() {
		_, err := l.agent.server.handleDown(ctx, api.DownRequest{Session: modelSession, Cancel: true})
		l.m.did("%s: down behind an up: %v", l.name, err)
	})
	time.Sleep(2 * time.Second)
	began := time.Now()
	if l.up(); time.Since(began) > 5*time.Second {
		l.m.wrong("the up waited %s for the cancel", time.Since(began))
	}
	down.Wait()
}

// endJob ends a job behind tunctl's back, and may give its number to another job of the user.
func (m *model) endJob() {
	how, again := pick(m, "FAILED", "COMPLETED", "CANCELLED"), m.chance(1, 2)
	m.cluster.set(func() {
		now := time.Now()
		for _, j := range m.cluster.jobs {
			if j.tag == nil || !j.live(now) {
				continue
			}
			m.cluster.end(j, how, nil)
			m.did("job %s ends: %s", j.id, j.how)
			// Schedulers use a number again after millions of others, so a laptop has seen the job by then.
			known := j.tag.laptop.agent.Store.Session(j.tag.session).Submissions.Of(api.Job{ID: j.id}).Job
			if again && known != nil && known.Name != "" {
				m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: j.id, name: "production", script: "/home/alice/production.sh", submitted: j.ended.Add(time.Minute), start: j.ended.Add(time.Minute), limit: 100 * time.Hour})
				m.did("job %s is another one soon", j.id)
			}
			return
		}
	})
}

// requeue has a running job wait again, as after a failure of its node.
func (m *model) requeue() {
	m.cluster.set(func() {
		now := time.Now()
		for _, j := range m.cluster.jobs {
			if j.tag != nil && j.live(now) && j.ended.IsZero() && now.After(j.start) && j.tasks == 0 && m.cluster.dialect.name() == "slurm" {
				j.start, j.restarts, j.requeued = now.Add(3*time.Minute), j.restarts+1, now
				m.did("job %s is requeued", j.id)
			}
		}
	})
}

// fillDisk has all writes of the state fail, also of copies.
func (l *modelLaptop) fillDisk() {
	if l.full {
		return
	}
	l.m.did("the disk of %s is full", l.name)
	must(l.m.t, os.Rename(l.paths.State, l.paths.State+".away"))
	l.m.write(l.paths.State, "")
	l.full = true
}

func (l *modelLaptop) freeDisk() {
	if !l.full {
		return
	}
	l.m.did("the disk of %s has room", l.name)
	_ = os.Remove(l.paths.State)
	must(l.m.t, os.Rename(l.paths.State+".away", l.paths.State))
	l.full = false
}

// attach opens a job that the user has started without tunctl.
func (l *modelLaptop) attach() {
	c, id := l.m.cluster, l.m.cluster.dialect.id(99001)
	var byHand *modelJob
	c.set(func() {
		if now := time.Now(); c.find(id) == nil {
			c.jobs = append(c.jobs, &modelJob{id: id, name: "by-hand", script: "/home/alice/by-hand.sh", submitted: now, start: now, limit: 2 * time.Hour})
		}
		byHand = c.find(id)
	})
	l.connect()
	ctx, stop := l.m.patience()
	defer stop()
	req := api.AttachRequest{Host: "hpc", Job: id, Name: modelHand}
	c.set(func() { byHand.attached = true })
	_, err := l.agent.server.handleAttach(ctx, req)
	if err == nil {
		l.hand = byHand
	}
	l.m.did("%s: attach job %s: %v", l.name, id, err)
}

// submit is `tunctl submit` or `tunctl run` of a job that belongs to no session.
func (l *modelLaptop) submit() {
	l.connect()
	if l.m.chance(1, 2) {
		l.m.oddSubmission()
	}
	l.submitOne(pick(l.m, api.SubmitRequest{Script: "~/production.sh"}, modelRun))
}

// modelRun is what `tunctl run` asks for.
var modelRun = api.SubmitRequest{Command: []string{"nvidia-smi"}, Mark: "MARK"}

func (l *modelLaptop) submitOne(req api.SubmitRequest) {
	ctx, stop := l.m.patience()
	defer stop()
	r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
	r.SetPathValue("host", "hpc")
	l.submits.Add(1)
	began := time.Now()
	res, err := l.agent.server.handleSubmitJob(r, req)
	l.submits.Add(-1)
	l.m.sync()
	l.m.did("%s: submit: job %s, %v", l.name, res.Job.ID, err)
	l.checkSubmitted(began, res.Job.ID, err)
}

// assistant is an assistant that starts or ends a session, and the user who is asked, and may say no.
func (l *modelLaptop) assistant() {
	session, says, isUp, cancel := l.anySession(), pick(l.m, "yes", "no"), l.m.chance(1, 2), l.m.chance(3, 4)
	asked := make(chan struct{}, 10)
	watcher := l.agent.Hub.Subscribe("desktop", api.AnswersDesktop)
	var person sync.WaitGroup
	person.Go(func() {
		for e := range watcher.C {
			if e.Type == api.EventPrompt {
				asked <- struct{}{}
				_ = l.agent.server.prompts.Answer(e.Prompt.ID, api.Answer{Text: says})
			}
		}
	})
	over, began, req := l.ended(), time.Now(), api.AssistantRequest{Assistant: "clippy", Session: session, Cancel: cancel}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	w := l.wishes[session]
	if isUp {
		was := *w
		if says == "yes" {
			w.granted, w.clicked, w.asked = began, began, began
		}
		_, err := l.agent.server.handleAssistantUp(ctx, req)
		l.m.did("%s: an assistant's up of %s, %s: %v", l.name, session, says, err)
		if err != nil {
			w.granted, w.clicked = was.granted, was.clicked
		} else {
			w.ended = time.Time{}
		}
	} else {
		call := func() (api.DownResponse, error) { return l.agent.server.handleAssistantDown(ctx, req) }
		if says == "yes" {
			l.downBy(session, cancel, call)
		} else {
			_, err := call()
			l.m.did("%s: an assistant's down of %s, cancel %v, %s: %v", l.name, session, cancel, says, err)
		}
	}
	l.agent.Hub.Unsubscribe(watcher)
	person.Wait()
	l.m.sync()
	l.m.checkAssistant(l, over, len(asked) > 0 && says == "yes")
}

// sleepForDays is a long weekend. The laptop has no network.
func (l *modelLaptop) sleepForDays() {
	l.lose()
	l.m.sleep(72 * time.Hour)
	l.restore()
}

// jumpClock sets the cluster's clock.
func (m *model) jumpClock() {
	skew := pick(m, -time.Hour, 0, 2*time.Minute, time.Hour)
	m.cluster.set(func() {
		for _, j := range m.cluster.jobs {
			j.drift += m.cluster.skew - skew
		}
		m.cluster.skew, m.jumped = skew, true
	})
	m.did("the clock of the cluster is ahead by %s", skew)
	for _, l := range m.laptops {
		l.troubled = time.Now()
	}
}

// upgrade replaces the agent by one that finds the state file of another version, of a clock that
// was wrong, cut off, or lost with its copy.
func (l *modelLaptop) upgrade() {
	how := pick(l.m, "older", "newer", "later", "cut off", "lost")
	if how == "lost" && (l.offline || l.agent.Hosts.Pool.Host("hpc").Status().State != api.HostUp || time.Now().Before(l.m.cluster.lieEnds)) {
		how = "cut off"
	}
	text := l.stateFile()
	changed, ok := modelStates[how](text)
	if text == "" || l.full || !ok {
		return
	}
	l.m.did("%s: the agent is replaced; the state file is %s", l.name, how)
	l.crashWith(changed, how == "lost")
	if how == "lost" {
		l.recoverFromHost()
	}
}

// recoverFromHost lets the agent find its jobs again, of which only the host knows. What has not become
// a job yet, what belongs to no session, and what the user wanted, is lost.
func (l *modelLaptop) recoverFromHost() {
	for _, w := range l.wishes {
		w.ended = time.Time{}
	}
	l.hand = nil
	l.m.cluster.set(func() {
		for _, tag := range l.m.cluster.tags {
			tag.told = tag.told || tag.laptop == l && (tag.session == "" || tag.job != nil && !tag.job.exists(time.Now()))
		}
	})
	l.connect()
	l.m.sleep(2 * time.Minute)
}

// modelStates rewrite a state file. That of an older version has one job and the next one for a
// session.
var modelStates = map[string]func(string) (string, bool){
	"cut off": func(text string) (string, bool) { return text[:len(text)/2], true },
	"lost":    func(text string) (string, bool) { return text[:len(text)/3], true },
	"newer": func(text string) (string, bool) {
		return rewriteState(text, func(file map[string]any) {
			file["version"], file["rooms"] = 99, []string{"attic"}
			eachSubmission(file, func(sub map[string]any) { sub["colour"] = map[string]any{"blue": 1} })
		})
	},
	"later": func(text string) (string, bool) {
		return rewriteState(text, func(file map[string]any) {
			eachSubmission(file, func(sub map[string]any) {
				for _, key := range []string{"when", "missed"} {
					if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(sub[key])); err == nil {
						sub[key] = at.Add(time.Hour).Format(time.RFC3339Nano)
					}
				}
			})
		})
	},
	"older": olderState,
}

func rewriteState(text string, change func(file map[string]any)) (string, bool) {
	var file map[string]any
	if json.Unmarshal([]byte(text), &file) != nil {
		return "", false
	}
	change(file)
	raw, err := json.Marshal(file)
	return string(raw), err == nil
}

func eachSubmission(file map[string]any, do func(sub map[string]any)) {
	sessions, _ := file["sessions"].(map[string]any)
	for _, s := range sessions {
		list, _ := s.(map[string]any)["submissions"].([]any)
		for _, sub := range list {
			do(sub.(map[string]any))
		}
	}
}

// olderState is a state file of version 1; false if that cannot have what there is.
func olderState(text string) (string, bool) {
	fits := true
	older, ok := rewriteState(text, func(file map[string]any) {
		file["version"] = 1
		sessions, _ := file["sessions"].(map[string]any)
		for _, x := range sessions {
			s := x.(map[string]any)
			list, _ := s["submissions"].([]any)
			delete(s, "submissions")
			delete(s, "failure")
			for _, x := range list {
				sub := x.(map[string]any)
				job, tag := "job", "tag"
				if sub["role"] == "next" {
					job, tag = "next", "nextTag"
				}
				fits = fits && sub["role"] != "other" && sub["cancel"] == nil && (sub["job"] != nil || sub["doubt"] == nil)
				for from, to := range map[string]string{"job": job, "tag": tag, "with": "with", "account": "account"} {
					if sub[from] != nil {
						s[to] = sub[from]
					}
				}
			}
		}
	})
	return older, ok && fits
}

// modelSequences is how many sequences are tried; `make campaign` sets TUNCTL_SEQUENCES.
func modelSequences(t *testing.T) (first, n uint64) {
	t.Helper()
	read := func(name string, otherwise uint64) uint64 {
		if text := os.Getenv(name); text != "" {
			v, err := strconv.ParseUint(text, 10, 64)
			must(t, err)
			return v
		}
		return otherwise
	}
	return read("TUNCTL_SEED", 1), read("TUNCTL_SEQUENCES", 90)
}

// inMemory has temporary files in memory, if there is such a folder: thousands of small files are
// written, and synced.
func inMemory(t *testing.T) {
	t.Helper()
	if shm := "/dev/shm"; os.Getenv("TMPDIR") == "" {
		if info, err := os.Stat(shm); err == nil && info.IsDir() {
			t.Setenv("TMPDIR", shm)
		}
	}
}

// TestEveryChargedJobIsKnown does random things to two laptops and a cluster. TUNCTL_SEED and
// TUNCTL_SEQUENCES=1 repeat one sequence.
func TestEveryChargedJobIsKnown(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no ssh that would be asked for settings
	inMemory(t)
	keyFile, key := sshtest.NewKeyFile(t)
	dialects := []modelDialect{modelSlurm{}, modelPBS{}, modelGridEngine{}}
	first, n := modelSequences(t)
	t.Logf("seeds %d to %d", first, first+n-1)
	for seed := first; seed < first+n; seed++ {
		var m *model
		synctest.Test(t, func(t *testing.T) {
			m = newModel(t, seed, dialects[seed%uint64(len(dialects))], keyFile, key)
			for range 6 + m.random.IntN(8) {
				if m.act(); m.failed {
					break
				}
			}
			m.finish()
		})
		text := fmt.Sprintf("seed %d, %s:\n%s", seed, m.cluster.dialect.name(), strings.Join(m.log, "\n"))
		if m.failed {
			t.Error(text)
			if os.Getenv("TUNCTL_SEED") == "" {
				return
			}
		}
		if n == 1 {
			t.Log(text)
		}
	}
}
