package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
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
	"tunctl/internal/dev/steptest"
	"tunctl/internal/latest"
	"tunctl/tunnel"
)

// TestModel runs random sequences of what a network, a login node, a scheduler and a user do while
// programs run inside a job, on the simulated clock. Every byte that a program printed is delivered
// once, or the loss is said with its cause; nothing runs in the job that no record knows; and no
// host is blocked that refused nothing. TUNCTL_SEQUENCES is how many sequences, TUNCTL_SEED the first.
func TestModel(t *testing.T) {
	sequences, _ := strconv.Atoi(os.Getenv("TUNCTL_SEQUENCES"))
	first, _ := strconv.Atoi(os.Getenv("TUNCTL_SEED"))
	t.Setenv("PATH", t.TempDir()) // without ssh: its settings take longer than everything else
	for seed := first; seed < first+max(sequences, 30); seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, uint64(seed))
				defer func() {
					if t.Failed() {
						t.Log(strings.Join(w.steps, "\n"))
					}
				}()
				for range 12 {
					w.step()
				}
				w.finish()
			})
		})
		if t.Failed() {
			return
		}
	}
}

// No other way leads to a relay that is resumed, so its step may take longer than the first one.
func TestSlowStep(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		w.node.Close()
		w.options.Names, w.options.Job, w.options.QsubJob = []string{"refused"}, "7", ""
		w.node = w.login.node(w.options)
		w.open()
		w.slow = 20 * time.Second
		w.outer.Drop()
		time.Sleep(2 * time.Minute)
		if h := w.node.Held(); len(w.programs) != 1 || h.Streams != 1 || !h.IsOver() || w.sruns != 2 {
			t.Errorf("%v; srun ran %d times; held: %+v", w.steps, w.sruns, h)
		}
		w.finish()
	})
}

// world is a job on a node behind a login node.
type world struct {
	t       *testing.T
	random  *rand.Rand
	outer   *sshtest.Server
	inner   *sshtest.Server
	login   *login
	options Options
	job     *steptest.Job
	node    *Node
	begun   time.Time
	steps   []string

	mu       sync.Mutex
	records  map[string]*Record
	left     map[string]bool
	srun     string         // what it says and fails; "": it works
	slow     time.Duration  // how long srun takes
	sruns    int            // how often it ran
	refuses  bool           // the node's sshd
	atLogin  map[any]func() // what the next login at a server meets
	over     bool           // the job
	away     bool           // there was no network for hours
	programs []*program
}

// program runs inside the job, and is read by a user.
type program struct {
	command string
	done    chan struct{}
	got     bytes.Buffer
	status  int
	err     error
	ends    bool // something that ends it was done meanwhile
	channel ssh.Channel
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), begun: time.Now(), records: map[string]*Record{}, left: map[string]bool{}, atLogin: map[any]func(){}}
	w.job = &steptest.Job{Handle: printLines}
	login, servers := behind(t, tunnel.DefaultLimits())
	w.login, w.outer, w.inner = login, servers["outer"], servers["inner"]
	onHost(w.outer, says("ssh: not found"), w.runSrun)
	onHost(w.inner, says("not expected"), w.runOnNode)
	for _, s := range servers {
		accept := s.Config.PublicKeyCallback
		s.Config.PublicKeyCallback = func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			w.mu.Lock()
			meet := w.atLogin[s]
			delete(w.atLogin, s)
			refuses := s == w.inner && (w.refuses || w.over)
			w.mu.Unlock()
			if meet != nil {
				meet()
			}
			if refuses {
				return nil, errors.New("you have no active jobs on this node")
			}
			return accept(m, k)
		}
	}
	w.options = []Options{
		{Names: []string{"refused"}, Job: "7"},
		{Names: []string{"inner"}, Job: "7"},
		{Names: []string{"inner"}, QsubJob: "7.server"},
	}[w.random.IntN(3)]
	w.options.Records = w
	w.say("%+v", w.options.Names)
	w.node = w.login.node(w.options)
	t.Cleanup(func() { w.node.Close() })
	return w
}

// say notes a step, and when it was.
func (w *world) say(format string, args ...any) {
	w.steps = append(w.steps, time.Since(w.begun).Round(time.Second).String()+" "+fmt.Sprintf(format, args...))
}

// Add implements Records.
func (w *world) Add(r Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records[r.Socket] = &r
}

// Remove implements Records.
func (w *world) Remove(r Record, left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left[r.Socket] = left; !left {
		delete(w.records, r.Socket)
	}
}

// Left implements Records: nothing was left by another client.
func (w *world) Left(Record) (Record, bool) { return Record{}, false }

// runSrun is srun on the login node.
func (w *world) runSrun(ch ssh.Channel, line string) int {
	w.mu.Lock()
	words, slow := w.srun, w.slow
	w.sruns++
	if w.over {
		words = "srun: error: Invalid job id specified"
	}
	w.mu.Unlock()
	if words != "" || !strings.Contains(line, "srun") {
		return says(words)(ch, line)
	}
	time.Sleep(slow)
	w.job.Run(ch, true)
	return 0
}

// runOnNode is a login on the node. On Slurm it is part of the job; on PBS pbs_attach makes it one, if the
// command says so to the relay.
func (w *world) runOnNode(ch ssh.Channel, line string) int {
	w.job.Run(ch, w.options.Job != "" || strings.HasPrefix(line, "pbs_attach -j 7.server -p $$ ") && strings.Contains(line, "TUNCTL_INSIDE=1"))
	return 0
}

// printLines prints so many lines, some seconds apart.
func printLines(ctx context.Context, command string, out io.Writer) uint32 {
	var lines, pause int
	_, _ = fmt.Sscan(command, &lines, &pause)
	for i := range lines {
		select {
		case <-ctx.Done():
			return 1
		case <-time.After(time.Duration(pause) * time.Second):
		}
		_, _ = fmt.Fprintf(out, "line %d\n", i)
	}
	return uint32(lines % 7)
}

// step does one random thing, and waits for a random time.
func (w *world) step() {
	minutes := func(most int) time.Duration { return time.Duration(w.random.IntN(most*60)) * time.Second }
	restore := func(after time.Duration, what string, undo func()) {
		w.say("%s for %v", what, after)
		time.AfterFunc(after, undo)
	}
	set := func(change func()) { w.mu.Lock(); defer w.mu.Unlock(); change() }
	switch w.random.IntN(12) {
	case 0, 1, 2:
		w.open()
	case 3:
		w.say("the connection is cut")
		w.outer.Drop()
	case 4:
		w.outer.Set(func(s *sshtest.Server) { s.Refuse = syscall.EHOSTUNREACH })
		w.outer.Cut()
		most := []int{1, 30, 660}[w.random.IntN(3)]
		if w.away {
			most = 1 // two long ones may be more than a relay waits
		}
		w.away = w.away || most > 30
		restore(minutes(most), "there is no network", func() {
			w.outer.Set(func(s *sshtest.Server) { s.Refuse = nil })
			w.login.pool.NetworkChanged()
		})
	case 5:
		restore(minutes(5), "the connection is silent", w.outer.Stall())
		w.login.pool.NetworkChanged()
	case 6: // the next login meets another cut
		server, name := w.inner, "the node"
		if w.random.IntN(2) == 0 {
			server, name = w.outer, "the host"
		}
		meet, how := func() { w.outer.Cut(); time.Sleep(time.Second) }, "cut"
		if w.random.IntN(2) == 0 {
			meet, how = func() { time.AfterFunc(40*time.Second, w.outer.Stall()); time.Sleep(time.Minute) }, "silent"
		}
		w.say("the next login on %s is %s", name, how)
		set(func() { w.atLogin[server] = meet })
		w.outer.Drop()
	case 7:
		words := []string{
			"srun: error: Unable to create step for job 7: Access denied", "python3 is not installed on this node",
			"srun: error: Unable to confirm allocation for job 7: Invalid job id specified",
		}[w.random.IntN(3)]
		set(func() { w.srun = words })
		restore(minutes(3), words, func() { set(func() { w.srun = "" }) })
	case 8:
		set(func() { w.refuses = true })
		restore(minutes(3), "the node refuses logins", func() { set(func() { w.refuses = false }) })
	case 9: // and srun, perhaps, which was used for another job
		words := []string{"", "srun: error: Unable to create step for job 7: Access denied"}[w.random.IntN(2)]
		w.inner.Set(func(s *sshtest.Server) { s.Silent = true })
		set(func() { w.srun = words })
		w.login.learned.into.set(stepRoute)
		w.outer.Drop()
		restore(minutes(8), "srun: "+words, func() { set(func() { w.srun = "" }) })
		restore(minutes(20), "the node's sshd is busy", func() { w.inner.Set(func(s *sshtest.Server) { s.Silent = false }) })
	case 10:
		w.reconnectEditor()
	case 11:
		w.restartAgent()
	}
	time.Sleep(minutes(4))
	synctest.Wait()
	w.check()
	w.endLeft()
}

// open starts a program inside the job, as a shell, an editor or a copy does.
func (w *world) open() {
	if w.over {
		return
	}
	p := &program{command: fmt.Sprintf("%d %d", w.random.IntN(40), w.random.IntN(60)), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	ch, requests, err := w.node.OpenChannel(ctx, "session", nil)
	if err == nil {
		p.channel = ch
		p.read(requests)
		_, err = ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{p.command}))
	}
	w.say("open %q: %v", p.command, err)
	if err == nil {
		w.programs = append(w.programs, p)
	} else if ch != nil {
		_ = ch.Close()
	}
}

// read reads what the program prints, to its end.
func (p *program) read(requests <-chan *ssh.Request) {
	p.status = -1
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		for r := range requests {
			var exit struct{ Status uint32 }
			if r.Type == "exit-status" && ssh.Unmarshal(r.Payload, &exit) == nil {
				p.status = int(exit.Status)
			}
		}
	}()
	go func() {
		defer close(p.done)
		_, p.err = io.Copy(&p.got, p.channel)
		<-exited
	}()
}

// reconnectEditor closes a program's channel, and opens another.
func (w *world) reconnectEditor() {
	for _, p := range w.programs {
		if !latest.IsClosed(p.done) && !p.ends {
			w.say("close %q", p.command)
			p.ends = true
			_ = p.channel.Close()
			break
		}
	}
	w.open()
}

// restartAgent ends the node in an orderly way, or as a crash does: nobody can be told.
func (w *world) restartAgent() {
	crash := w.random.IntN(2) == 0
	w.say("the agent is restarted; a crash: %v", crash)
	if crash {
		w.outer.Cut()
	}
	for _, p := range w.programs {
		p.ends = true
	}
	w.node.Close()
	w.mu.Lock()
	for socket := range w.records {
		w.left[socket] = true
	}
	w.mu.Unlock()
	w.node = w.login.node(w.options)
}

// endLeft ends the relays that were left, as the agent does over each new connection.
func (w *world) endLeft() {
	w.mu.Lock()
	var left []*Record
	for socket, r := range w.records {
		if w.left[socket] {
			left = append(left, r)
		}
	}
	w.mu.Unlock()
	for _, r := range left {
		if w.login.Status().State != api.HostUp {
			return
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
		n := w.login.node(r.Options())
		if err := n.EndRelay(ctx, *r); err == nil || w.over && jobEnded(err) {
			w.Remove(*r, false)
		}
		n.Close()
		cancel()
	}
}

// check looks for what must never be.
func (w *world) check() {
	w.t.Helper()
	if h := w.login.Status(); h.State == api.HostBlocked || h.State == api.HostNeedsLogin {
		w.t.Fatalf("the host is %s: %s", h.State, h.Cause)
	}
	w.mu.Lock()
	for _, socket := range w.job.Running() {
		if w.records[socket] == nil {
			w.t.Errorf("no record knows %s, which runs in the job", socket)
		}
	}
	w.mu.Unlock()
	for _, p := range w.programs {
		p.check(w)
	}
}

// check compares what was read with what the program prints.
func (p *program) check(w *world) {
	w.t.Helper()
	if !latest.IsClosed(p.done) {
		return
	}
	var want bytes.Buffer
	var lines int
	_, _ = fmt.Sscan(p.command, &lines)
	for i := range lines {
		_, _ = fmt.Fprintf(&want, "line %d\n", i)
	}
	all := bytes.Equal(p.got.Bytes(), want.Bytes())
	switch {
	case all && p.err == nil && p.status == lines%7:
	case !bytes.HasPrefix(want.Bytes(), p.got.Bytes()):
		w.t.Errorf("%q: %q is no beginning of what it prints", p.command, p.got.String())
	case !p.ends && !w.over:
		w.t.Errorf("%q was lost after %d bytes, status %d: %v", p.command, p.got.Len(), p.status, p.err)
	case p.err == nil && all && p.status < 0 && !p.ends:
		w.t.Errorf("%q has no status, and no error", p.command)
	}
}

// finish has everything work again, and waits for all programs. Half of the jobs end before that.
func (w *world) finish() {
	w.t.Helper()
	if w.random.IntN(2) == 0 {
		w.say("the job ends")
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		w.job.End()
		time.Sleep(2 * time.Minute) // until the scheduler has been asked twice
		w.node.Close()
	}
	time.Sleep(11 * time.Hour)
	w.say("all works again")
	for _, p := range w.programs {
		select {
		case <-p.done:
		case <-time.After(20 * time.Hour):
			w.t.Errorf("%q never ends; held: %+v", p.command, w.node.Held())
			_ = p.channel.Close()
		}
	}
	w.check()
	w.node.Close()
	mustConnect(w.t, w.login)
	w.endLeft()
	synctest.Wait()
	if running := w.job.Running(); len(running) > 0 && !slices.ContainsFunc(running, func(s string) bool { return w.records[s] == nil }) {
		time.Sleep(2 * time.Hour) // a login that the node refused is tried again after an hour
		w.endLeft()
	}
	synctest.Wait()
	if running := w.job.Running(); len(running) > 0 {
		w.t.Errorf("still in the job: %q", running)
	}
	w.job.End()
}
