//go:build linux

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/wait"
	"tunctl/tunnel"
	"tunctl/tunnel/step"
)

// newDetachedSlurm makes an srun as the real one is: the step is not its child, and outlives it.
func newDetachedSlurm(t *testing.T, hook string) *fakeSlurm {
	t.Helper()
	f := newFakeSlurm(t, hook)
	f.program(t, "srun", `echo "$*" >> $FAKE/runs
`+hook+`
while :; do
  case $1 in --jobid=*) job=${1#*=} ;; -*) ;; *) break ;; esac
  shift
done
mkfifo $FAKE/in.$$ $FAKE/out.$$
SLURM_JOB_ID=$job setsid -f sh -c 'echo $$ >> $FAKE/pids; exec "$@"' step "$@" <$FAKE/in.$$ >$FAKE/out.$$ &
exec 3<&0
cat <&3 >$FAKE/in.$$ & exec 3<&-; cat <$FAKE/out.$$
`)
	t.Cleanup(func() {
		for _, pid := range f.steps() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return f
}

// steps are the process ids of the steps, the oldest first.
func (f *fakeSlurm) steps() (pids []int) {
	for _, line := range f.lines("pids") {
		if pid, err := strconv.Atoi(line); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cutJob is a node of a job whose connection can be cut, with an open shell.
type cutJob struct {
	*Node
	*fakeSlurm
	told  *notices
	login *login
	host  *sshtest.Server
	inner *sshtest.Server // the node's sshd
	shell *opened
}

func newCutJob(t *testing.T, hook string, change func(*Options), limit ...func(*tunnel.Limits)) *cutJob {
	t.Helper()
	c := &cutJob{fakeSlurm: newDetachedSlurm(t, hook), told: &notices{}}
	o := Options{Names: []string{"refused"}, Job: "7", Notice: c.told.add}
	if change != nil {
		change(&o)
	}
	_, _, c.login = insideJob(t, c.fakeSlurm, o.Names[0], func(l *tunnel.Limits) {
		l.ProbeTimeout, l.LoginSpacing = 100*time.Millisecond, time.Millisecond
		for _, set := range limit {
			set(l)
		}
	}, func(servers map[string]*sshtest.Server) {
		c.host, c.inner = servers["outer"], servers["inner"]
		withNodeLogin(c.fakeSlurm, "SLURM_JOB_ID=7", "PBS_JOBID=7.server")(servers)
	})
	c.Node = c.login.node(o)
	t.Cleanup(c.Close)
	shell, err := start(t, c.Node, "echo $$; cat")
	if err != nil {
		t.Fatal(err)
	}
	c.shell = shell
	t.Cleanup(func() { _ = shell.Close() })
	first := make([]byte, 1)
	for first[0] != '\n' {
		if _, err := shell.Read(first); err != nil {
			t.Fatal(err)
		}
	}
	sshtest.StillEchoes(t, shell)
	return c
}

// heldBefore is what the last cut meant, once that is noted: the streams continue a moment before.
func (c *cutJob) heldBefore(t *testing.T) api.Held {
	t.Helper()
	eventually(t, func() bool { return c.Held().IsOver() })
	return c.Held()
}

func TestAShellInsideAJobContinuesAfterTheConnectionWasLost(t *testing.T) {
	c := newCutJob(t, "", nil)
	host, port := echoOf(t, len("still there?"))
	page, err := c.Dial(t.Context(), "tcp", host+":"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(page)
	for range 2 {
		c.host.Drop()
		sshtest.StillEchoes(t, c.shell)
	}
	sshtest.StillEchoes(t, page)
	if _, err := page.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // a regular end
		t.Error("the end of the page:", err)
	}
	if h := c.heldBefore(t); h.Streams != 2 || h.Lost != 0 || !h.Since.Before(h.Until) {
		t.Errorf("held: %+v", h)
	}
	mustPrint(t, c.Node, "echo $SLURM_JOB_ID", "7")
	if runs := c.lines("runs"); len(runs) != 3 || c.told.String() != "" {
		t.Errorf("%d steps for two cuts; told %q", len(runs), c.told)
	}
}

func TestAShellByALoginOnTheNodeContinuesAfterTheConnectionWasLost(t *testing.T) {
	for scheduler, o := range map[string]Options{
		"Slurm that makes logins part of the job": {Job: "7"}, "PBS and Grid Engine": {QsubJob: "7.server"},
	} {
		t.Run(scheduler, func(t *testing.T) {
			c := newCutJob(t, "", func(all *Options) { all.Names, all.Job, all.QsubJob = []string{"inner"}, o.Job, o.QsubJob })
			if err := c.Ends(); err != nil {
				t.Error(err)
			}
			c.host.Drop()
			sshtest.StillEchoes(t, c.shell)
			if h := c.heldBefore(t); h.Streams != 1 || h.Lost != 0 || len(c.lines("runs")) > 0 {
				t.Errorf("held: %+v, steps %q", h, c.lines("runs"))
			}
		})
	}
}

// TestAWayThatEndsAgainAndAgainIsReplacedWithPauses ends each new step soon after its start.
func TestAWayThatEndsAgainAndAgainIsReplacedWithPauses(t *testing.T) {
	c := newCutJob(t, "", nil)
	c.host.Drop()
	sshtest.StillEchoes(t, c.shell)
	for range 2 {
		steps := c.steps()
		_ = syscall.Kill(steps[len(steps)-1], syscall.SIGKILL)
		sshtest.StillEchoes(t, c.shell)
	}
	relay := c.job.steps.relay
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if relay.pause.failures < 2 {
		t.Errorf("after %d steps the pause is %+v", len(c.steps()), relay.pause)
	}
}

func TestWhatIsNewWaitsWhileOthersAreHeld(t *testing.T) {
	c := newCutJob(t, "", nil)
	c.host.Set(func(s *sshtest.Server) { s.Refuse = syscall.ECONNREFUSED })
	c.host.Drop()
	eventually(t, func() bool { return c.login.Status().State != api.HostUp })
	printed := make(chan error, 1)
	go func() {
		text, err := output(t, c.Node, "echo new")
		if err == nil && text != "new" {
			err = errors.New("it printed " + text)
		}
		printed <- err
	}()
	eventually(t, func() bool {
		select {
		case err := <-printed:
			t.Fatal("it did not wait:", err)
		default:
		}
		return c.Held().Streams == 1
	})
	c.host.Set(func(s *sshtest.Server) { s.Refuse = nil })
	c.login.pool.NetworkChanged()
	if err := <-printed; err != nil {
		t.Error(err)
	}
	sshtest.StillEchoes(t, c.shell)
}

func TestAShellInsideAJobContinuesWhenNobodyReportsTheCut(t *testing.T) {
	c := newCutJob(t, "", nil)
	end := c.host.Stall()
	c.login.pool.NetworkChanged()
	eventually(t, func() bool { return c.Held().Streams == 1 })
	sshtest.StillEchoes(t, c.shell)
	end()
	eventually(t, func() bool { return c.host.Connections() == 1 }) // nothing keeps the old one
	sshtest.StillEchoes(t, c.shell)
}

func TestAJobThatEndedDuringTheCutIsSaid(t *testing.T) {
	c := newCutJob(t, `if [ -e $FAKE/over ]; then echo "srun: error: Slurm job 7 has expired" >&2; exit 1; fi`, nil)
	if err := os.WriteFile(filepath.Join(c.dir, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.host.Drop()
	eventually(t, func() bool { return len(c.lines("runs")) >= 3 })
	if h := c.Held(); h.IsOver() {
		t.Errorf("srun's word was believed: %+v", h)
	}
	c.Close() // the scheduler has said so, too
	_, err := io.ReadAll(c.shell)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeJobEnded {
		t.Error(err)
	}
	if h := c.Held(); h.Lost != 1 || h.Cause != "job 7 has ended" {
		t.Errorf("held: %+v", h)
	}
}

// TestHeld has what is held outlive whatever one attempt to come back meets.
func TestHeld(t *testing.T) {
	const once = `if [ -e $FAKE/bad ]; then rm $FAKE/bad; echo "%s" >&2; exit 1; fi`
	for _, tt := range []struct {
		name, says string
		options    Options
		meet       func(t *testing.T, c *cutJob) // causes the cut
		nodeDial   time.Duration                 // if it is to end
	}{
		{name: "srun finds no Python", says: "python3 is not installed on this node", options: Options{Names: []string{"refused"}, Job: "7"}, meet: drop},
		{name: "srun knows no such job", says: "srun: error: Invalid job id specified", options: Options{Names: []string{"refused"}, Job: "7"}, meet: drop},
		{name: "the node refuses the login", options: Options{Names: []string{"inner"}, Job: "7"}, meet: func(t *testing.T, c *cutJob) {
			c.inner.LetNobodyIn()
			drop(t, c)
		}},
		{name: "another shell is opened by another way", nodeDial: time.Second, options: Options{Names: []string{"inner"}, Job: "7"}, meet: func(t *testing.T, c *cutJob) {
			c.inner.Set(func(s *sshtest.Server) { s.Silent = true })
			drop(t, c)
			mustPrint(t, c.Node, "echo $SLURM_JOB_ID", "7")
		}},
		{name: "a cut during the login on a node of Slurm", options: Options{Names: []string{"inner"}, Job: "7"}, meet: secondCut((*sshtest.Server).Drop)},
		{name: "a cut during the login on a node of PBS", options: Options{Names: []string{"inner"}, QsubJob: "7.server"}, meet: secondCut((*sshtest.Server).Drop)},
		{name: "silence during the login on a node", options: Options{Names: []string{"inner"}, QsubJob: "7.server"}, meet: secondCut(func(s *sshtest.Server) { s.Stall() })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCutJob(t, fmt.Sprintf(once, tt.says), func(o *Options) { o.Names, o.Job, o.QsubJob = tt.options.Names, tt.options.Job, tt.options.QsubJob }, func(l *tunnel.Limits) {
				l.NodeDial = cmp.Or(tt.nodeDial, wait.Limit) // else a busy machine takes another route
			})
			if tt.says != "" {
				if err := os.WriteFile(filepath.Join(c.dir, "bad"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tt.meet(t, c)
			sshtest.StillEchoes(t, c.shell)
			mustPrint(t, c.Node, "echo new", "new")
			if h := c.heldBefore(t); h.Lost != 0 {
				t.Errorf("held: %+v", h)
			}
		})
	}
}

func drop(_ *testing.T, c *cutJob) { c.host.Drop() }

// secondCut cuts the connection, and cuts the next one while the login on the node is under way.
func secondCut(cut func(*sshtest.Server)) func(*testing.T, *cutJob) {
	return func(_ *testing.T, c *cutJob) {
		began, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		c.inner.Set(func(s *sshtest.Server) {
			accept := s.Config.PublicKeyCallback
			s.Config.PublicKeyCallback = func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
				once.Do(func() {
					close(began)
					<-release
				})
				return accept(m, k)
			}
		})
		c.host.Drop()
		<-began
		cut(c.host)
		close(release)
		c.login.pool.NetworkChanged()
	}
}

// fewRecords remember one relay.
type fewRecords struct {
	mu     sync.Mutex
	record Record
	left   bool
}

func (f *fewRecords) Add(r Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record = r
}

func (f *fewRecords) Remove(_ Record, left bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = left
}

func (f *fewRecords) Left(Record) (Record, bool) { return Record{}, false }

func TestARelayThatWasLeftIsEndedLater(t *testing.T) {
	records := &fewRecords{}
	c := newCutJob(t, "", func(o *Options) { o.Records = records })
	pid := c.steps()[0]
	c.login.Down()
	eventually(t, func() bool { return c.login.Status().State == api.HostDown && c.host.Connections() == 0 }) // it is down before its connection has ended
	c.Close()
	if !records.left || isGone(pid) {
		t.Fatalf("left %v, gone %v", records.left, isGone(pid))
	}
	c.login.Up()
	mustConnect(t, c.login)
	next := c.login.node(records.record.Options())
	defer next.Close()
	for range 2 { // the second time it is gone
		if err := next.EndRelay(t.Context(), records.record); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return isGone(pid) })
	}
}

// oneLeft is a record of a relay that was left.
type oneLeft struct{ noRecords }

func (oneLeft) Left(like Record) (Record, bool) { return like, true }

func TestLeftRelay(t *testing.T) {
	limits := tunnel.DefaultLimits()
	r := newSharedRelay(relayOptions{
		options: func() step.Options { return step.Options{} }, told: func() {}, changed: func() <-chan struct{} { return nil },
		limits: &limits, log: slog.New(slog.DiscardHandler), records: oneLeft{}, record: (&Options{}).record(false),
		start: func(context.Context, bool, joinFunc) (*tunnel.Stream, error) {
			return nil, errors.New("no step starts")
		},
	})
	defer r.close()
	for range 2 { // the second time it is not even tried
		if _, err := r.ready(t.Context()); !errors.Is(err, step.ErrLeft) {
			t.Errorf("%v", err)
		}
	}
}

// isGone reports whether a process has ended.
func isGone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestARelayIsTriedAgainWhileNoStepStarts(t *testing.T) {
	c := newCutJob(t, `if [ -e $FAKE/busy ]; then rm $FAKE/busy; echo "srun: error: Unable to create step" >&2; exit 1; fi`, nil)
	if err := os.WriteFile(filepath.Join(c.dir, "busy"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.host.Drop()
	sshtest.StillEchoes(t, c.shell)
}

func TestWithoutResumeAShellEndsWithItsConnection(t *testing.T) {
	c := newCutJob(t, "", func(o *Options) { o.NoResume = true })
	if _, err := c.DialInside(t.Context(), "tcp", "127.0.0.1:1", nil); !errors.Is(err, errNoResume) || !errors.Is(c.Ends(), errNoResume) {
		t.Errorf("%v; %v", err, c.Ends())
	}
	pid := c.steps()[0]
	c.host.Drop()
	if _, err := io.ReadAll(c.shell); err == nil {
		t.Error("it seems to have ended well")
	}
	eventually(t, func() bool { return isGone(pid) })
	eventually(t, func() bool {
		got, err := output(t, c.Node, "echo again")
		return err == nil && got == "again"
	})
}

func TestARelayThatNobodyUsesIsNotResumed(t *testing.T) {
	c := newCutJob(t, "", nil)
	_ = c.shell.CloseWrite()
	_, _ = io.ReadAll(c.shell)
	<-c.shell.status // with the end of its channel, which is acknowledged
	_ = c.shell.Close()
	if _, err := c.DialInside(t.Context(), "tcp", "127.0.0.1:1", nil); err == nil { // by its answer the relay knows that the shell's end has arrived
		t.Error("somebody listens on port 1")
	}
	c.host.Drop()
	pid := c.steps()[0]
	eventually(t, func() bool { return isGone(pid) })
	mustConnect(t, c.login)
	if runs := c.lines("runs"); len(runs) != 1 {
		t.Errorf("%d steps", len(runs))
	}
}
