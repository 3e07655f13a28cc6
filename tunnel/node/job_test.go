//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
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
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/posixsh"
	"tunctl/tunnel"
	"tunctl/tunnel/step"
)

// fakeSlurm has an srun on a host that runs what it is given on this machine, as if that
// was the job's node.
type fakeSlurm struct {
	dir string
	env []string // of a login on the host
}

// newFakeSlurm makes an srun. The shell code hook runs first, with srun's arguments.
func newFakeSlurm(t *testing.T, hook string) *fakeSlurm {
	t.Helper()
	testprogram.Need(t, "python3")
	f := &fakeSlurm{dir: t.TempDir()}
	t.Cleanup(f.endAll)
	f.env = []string{"PATH=" + f.dir + ":" + os.Getenv("PATH"), "HOME=" + f.dir, "FAKE=" + f.dir, "SHELL=/bin/sh"}
	f.program(t, "srun", `echo "$*" >> $FAKE/runs
`+hook+`
while :; do
  case $1 in --jobid=*) job=${1#*=} ;; -*) ;; *) break ;; esac
  shift
done
echo $$ >> $FAKE/pids
SLURM_JOB_ID=$job exec "$@"
`)
	return f
}

// endAll ends what a test left: a relay that was cut off waits for hours, and later tests would take it for
// a process of their job.
func (f *fakeSlurm) endAll() {
	all, _ := filepath.Glob("/proc/[0-9]*/environ") // none where there is no /proc
	for _, path := range all {
		env, _ := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if slices.Contains(strings.Split(string(env), "\x00"), "FAKE="+f.dir) && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// program puts a script into the PATH.
func (f *fakeSlurm) program(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// lines are those of a file that the fake wrote.
func (f *fakeSlurm) lines(name string) []string {
	text, _ := os.ReadFile(filepath.Join(f.dir, name))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// run runs a line as a login on this machine would.
func (f *fakeSlurm) run(ch ssh.Channel, line string) int {
	cmd := exec.Command("sh", "-c", line)
	cmd.Env, cmd.Stdout, cmd.Stderr = f.env, ch, ch.Stderr()
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a step is
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 255
	}
	go func() {
		_, _ = io.Copy(in, ch)
		_ = in.Close()
	}()
	_ = cmd.Wait()
	return max(cmd.ProcessState.ExitCode(), 0)
}

// insideJob is a node of job 7 with that srun, and what the user is told.
func insideJob(t *testing.T, f *fakeSlurm, name string, change func(*tunnel.Limits), node func(map[string]*sshtest.Server)) (*Node, *notices, *login) {
	t.Helper()
	limits := tunnel.DefaultLimits()
	limits.RetryMin = 10 * time.Millisecond
	limits.StepStart = time.Minute // a program starts, on a loaded machine
	limits.NodeDial = longest      // else a busy machine takes another route
	if change != nil {
		change(&limits)
	}
	outer, servers := behind(t, limits)
	onHost(servers["outer"], says("ssh: not found"), f.run)
	if node != nil {
		node(servers)
	}
	told := &notices{}
	n := outer.node(Options{Names: []string{name}, Job: "7", Notice: told.add})
	t.Cleanup(n.Close)
	return n, told, outer
}

// withNodeLogin lets logins to "inner" run lines on this machine, with more environment.
func withNodeLogin(f *fakeSlurm, env ...string) func(map[string]*sshtest.Server) {
	return func(servers map[string]*sshtest.Server) {
		node := &fakeSlurm{dir: f.dir, env: append(env, f.env...)}
		onHost(servers["inner"], says("not expected"), node.run)
	}
}

type notices struct {
	mu   sync.Mutex
	list []string
}

func (n *notices) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, text)
}

func (n *notices) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.list, "\n")
}

// opened is a session with a command inside a job.
type opened struct {
	ssh.Channel
	status chan int // of the command
}

func start(t *testing.T, n *Node, command string) (*opened, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	ch, requests, err := n.OpenChannel(ctx, "session", nil)
	if err != nil {
		return nil, err
	}
	o := &opened{ch, make(chan int, 1)}
	go func() {
		status := -1
		for r := range requests {
			if r.Type == "exit-status" {
				var exit struct{ Status uint32 }
				_ = ssh.Unmarshal(r.Payload, &exit)
				status = int(exit.Status)
			}
			if r.WantReply {
				_ = r.Reply(false, nil)
			}
		}
		o.status <- status
	}()
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err == nil && !ok {
		err = errors.New("refused")
	}
	if err != nil {
		_ = ch.Close()
		return nil, err
	}
	return o, nil
}

// output runs a command inside the job to its end.
func output(t *testing.T, n *Node, command string) (string, error) {
	t.Helper()
	o, err := start(t, n, command)
	if err != nil {
		return "", err
	}
	defer closing(o)
	_ = o.CloseWrite()
	out, err := io.ReadAll(o)
	if status := <-o.status; err == nil && status != 0 {
		err = fmt.Errorf("status %d", status)
	}
	return strings.TrimSpace(string(out)), err
}

// mustPrint runs a command inside the job and compares what it prints.
func mustPrint(t *testing.T, n *Node, command, want string) {
	t.Helper()
	if got, err := output(t, n, command); err != nil || got != want {
		t.Fatalf("%s printed %q, %v; want %q", command, got, err, want)
	}
}

func TestAllThatGoesIntoAJobSharesOneStep(t *testing.T) {
	f := newFakeSlurm(t, "")
	n, told, _ := insideJob(t, f, "refused", nil, nil)
	var all sync.WaitGroup
	for range 24 { // an editor's
		all.Go(func() {
			if got, err := output(t, n, "echo $SLURM_JOB_ID"); err != nil || got != "7" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	host, port := echoOf(t, 5)
	c, err := n.Dial(t.Context(), "tcp", host+":"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(c)
	go say(c, "hello")
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := n.Dial(t.Context(), "tcp", "127.0.0.1:1"); !errors.Is(err, api.ErrRefused) {
		t.Errorf("a port where nothing listens: %v", err)
	}
	runs := f.lines("runs")
	if len(runs) != 1 || n.Limited() || told.String() != "" {
		t.Fatalf("%d steps, limited %v, told %q", len(runs), n.Limited(), told)
	}
	for _, option := range []string{
		"--jobid=7", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=refused", "--propagate=CORE", "--cpu-bind=none", "--immediate=60",
	} {
		if !strings.Contains(runs[0]+" ", option+" ") {
			t.Errorf("%s is missing in %s", option, runs[0])
		}
	}
	n.Close()
	if _, err := output(t, n, "true"); err == nil {
		t.Error("a channel of a closed node")
	}
	awaitEnd(t, f)
}

// awaitEnd waits until no step runs.
func awaitEnd(t *testing.T, f *fakeSlurm) {
	t.Helper()
	for _, line := range f.lines("pids") {
		pid, _ := strconv.Atoi(line)
		eventually(t, func() bool { return syscall.Kill(pid, 0) != nil })
	}
}

func TestAStepEndsSomeTimeAfterItsLastUserAndStartsAgain(t *testing.T) {
	f := newFakeSlurm(t, "")
	n, told, _ := insideJob(t, f, "refused", func(l *tunnel.Limits) {
		l.StepIdle = time.Second // less may be over before a channel is opened over the step
	}, nil)
	mustPrint(t, n, "echo one", "one")
	awaitEnd(t, f)
	mustPrint(t, n, "echo two", "two")
	if got := len(f.lines("runs")); got != 2 || told.String() != "" {
		t.Errorf("%d steps, told %q", got, told)
	}
}

func TestUsersKeepAStepAndItEndsFiveMinutesAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := tunnel.DefaultLimits()
		outer, servers := behind(t, limits)
		onHost(servers["outer"], nil, relayEcho)
		r := newSharedRelay(relayOptions{
			options: func() step.Options { return step.Options{} }, changed: outer.Changed, told: func() {}, limits: &limits, log: slog.New(slog.DiscardHandler),
			records: noRecords{}, record: (&Options{}).record(false),
			start: func(ctx context.Context, _ bool, join joinFunc) (*tunnel.Stream, error) {
				s, err := outer.Link().Start(ctx, posixsh.LoginLine, "")
				if err != nil {
					return nil, err
				}
				return s, joinRelay(ctx, s, join, limits.StepStart, "srun", "7")
			},
		})
		defer r.close()
		use := func() *runningRelay {
			run, err := r.acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		first := use()
		r.remove(first)
		for range 3 {
			time.Sleep(4 * time.Minute)
			for range 2 {
				if use() != first {
					t.Fatal("another one was started")
				}
			}
			r.remove(first)
			time.Sleep(time.Hour)
			r.remove(first)
		}
		last := time.Now()
		<-first.Done()
		if took := time.Since(last); took != limits.StepIdle {
			t.Errorf("it ended %v after the last user", took)
		}
		if next := use(); next == first {
			t.Error("one that has ended is used")
		}
	})
}

func TestAStepThatTheSiteEndsIsStartedAgainAndSaidOnce(t *testing.T) {
	f := newFakeSlurm(t, "")
	n, told, _ := insideJob(t, f, "refused", nil, nil)
	for i := range 3 {
		o, err := start(t, n, "cat")
		if err != nil {
			t.Fatal(err)
		}
		sshtest.StillEchoes(t, o) // before it runs, it still has the relay's socket
		pids := f.lines("pids")
		pid, _ := strconv.Atoi(pids[len(pids)-1])
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if _, err := io.ReadAll(o); !errors.Is(err, step.ErrGone) {
			t.Errorf("a shell whose step was killed: %v", err)
		}
		_ = o.Close()
		eventually(t, func() bool { // with pauses
			got, err := output(t, n, "echo again")
			return err == nil && got == "again"
		})
		if got := len(f.lines("runs")); got != 2*i+3 { // one each to look whether it still runs
			t.Errorf("%d steps after %d were killed", got, i+1)
		}
	}
	if text := told.String(); strings.Count(text, "\n") != 0 || !strings.Contains(text, "; the job still runs") {
		t.Errorf("told %q", text)
	}
}

func TestAStepThatFailsIsNotStartedInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, servers := behind(t, tunnel.DefaultLimits())
		ran := onHost(servers["outer"], says("ssh: not found"), says("srun: error: Unable to create step for job 7: Access denied"))
		node := outer.node(Options{Names: []string{"refused"}, Job: "7"})
		defer node.Close()
		for range 600 { // an editor tries once a second
			_, _, err := node.OpenChannel(t.Context(), "session", nil)
			if err == nil || !strings.Contains(err.Error(), "Access denied") {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if _, srun := ran(); srun < 3 || srun > 10 {
			t.Errorf("%d steps in ten minutes", srun)
		}
	})
}

func TestAJobThatHasEndedIsNotAskedForInALoop(t *testing.T) {
	for _, words := range []string{
		"srun: error: Slurm job 7 has expired\nsrun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7\n",
		"srun: error: Unable to confirm allocation for job 7: Invalid job id specified\n",
		"srun: error: Unable to create step for job 7: Job/step already completing or completed\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			outer, servers := behind(t, tunnel.DefaultLimits())
			ran := onHost(servers["outer"], says("ssh: not found"), says(words))
			node := outer.node(Options{Names: []string{"refused"}, Job: "7"})
			defer node.Close()
			for n := range 120 { // an editor tries once a second
				_, err := node.Dial(t.Context(), "tcp", "127.0.0.1:8888") // a page's
				if n > 0 {
					_, _, err = node.OpenChannel(t.Context(), "session", nil)
				}
				if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeJobEnded || e.Message != "job 7 has ended" {
					t.Fatalf("err = %v", err)
				}
				time.Sleep(time.Second)
			}
			if _, srun := ran(); srun < 3 || srun > 10 {
				t.Errorf("srun was run %d times in two minutes", srun)
			}
		})
	}
}

func TestAnSrunWithoutOverlapIsUsedWithoutIt(t *testing.T) {
	f := newFakeSlurm(t, `case "$*" in *--overlap*) echo "srun: unrecognized option '--overlap'" >&2; exit 255 ;; esac`)
	n, told, outer := insideJob(t, f, "refused", nil, nil)
	mustPrint(t, n, "echo $SLURM_JOB_ID", "7")
	if runs := f.lines("runs"); len(runs) != 2 || strings.Contains(runs[1], "--overlap") || told.String() != "" {
		t.Errorf("%q; told %q", runs, told)
	}
	next := outer.node(Options{Names: []string{"refused"}, Job: "8"})
	defer next.Close()
	mustPrint(t, next, "echo $SLURM_JOB_ID", "8")
	if runs := f.lines("runs"); len(runs) != 3 {
		t.Errorf("the next job had to find out, too: %q", runs)
	}
}

func TestAStepIsStartedOnTheClusterOfItsJob(t *testing.T) {
	f := newFakeSlurm(t, `case "$*" in *--clusters=gpu*) ;; *) echo "srun: error: Invalid job id specified" >&2; exit 1 ;; esac`)
	f.program(t, "squeue", `case "$*" in *--clusters=gpu*) echo 9 ;; esac`)
	_, _, outer := insideJob(t, f, "refused", nil, nil)
	for job, want := range map[string]string{"8": "8", "7_4": "9"} { // 9 is the number of the task
		n := outer.node(Options{Names: []string{"refused"}, Job: job, Cluster: "gpu"})
		defer n.Close()
		mustPrint(t, n, "echo $SLURM_JOB_ID", want)
	}
	steps := jobSteps{job: "7", node: "cn01", cluster: "x; touch y"}
	if err := steps.check(); err == nil {
		t.Error("a cluster with a command in its name is accepted")
	}
	own := jobSteps{job: "7", node: "cn01"}
	if err := own.check(); err != nil || strings.Contains(own.srun(time.Second), "--clusters") {
		t.Errorf("%v: %s", err, own.srun(time.Second))
	}
}

func TestAStepThatWaitsForMemoryIsStartedWithTheJobs(t *testing.T) {
	f := newFakeSlurm(t, `case "$*" in *--mem=0*) ;; *) sleep 1; exit 1 ;; esac`)
	n, told, _ := insideJob(t, f, "refused", func(l *tunnel.Limits) {
		l.StepStart = 200 * time.Millisecond
	}, nil)
	mustPrint(t, n, "echo $SLURM_JOB_ID", "7")
	eventually(t, func() bool { return len(f.lines("runs")) >= 2 }) // one that was given up may still be starting
	if runs := f.lines("runs"); len(runs) != 2 || told.String() != "" {
		t.Errorf("%q; told %q", runs, told)
	}
}

func TestALoginThatIsPartOfTheJobNeedsNoStep(t *testing.T) {
	f := newFakeSlurm(t, "")
	n, told, _ := insideJob(t, f, "inner", nil, withNodeLogin(f, "SLURM_JOB_ID=7"))
	mustPrint(t, n, "echo $SLURM_JOB_ID", "7")
	if runs := f.lines("runs"); len(runs) != 0 || told.String() != "" || n.learned.into.get() != "a login on the node" {
		t.Errorf("%q; told %q", runs, told)
	}
}

func TestALoginThatIsNotPartOfTheJobIsLeftForAStep(t *testing.T) {
	f := newFakeSlurm(t, "")
	n, told, outer := insideJob(t, f, "inner", nil, withNodeLogin(f))
	mustPrint(t, n, "echo $SLURM_JOB_ID", "7")
	if runs := f.lines("runs"); len(runs) != 1 || told.String() != "" {
		t.Errorf("%q; told %q", runs, told)
	}
	sshtest.EchoThrough(t, n) // a page's connection, by the hop
	if n.chosen.name == stepRoute {
		t.Error("a page went through the step though the hop works")
	}
	next := outer.node(Options{Names: []string{"inner"}, Job: "8"})
	defer next.Close()
	mustPrint(t, next, "echo $SLURM_JOB_ID", "8")
	if next.hop.IsLive() {
		t.Error("the next job of the host paid for the login again")
	}
}

func TestWhereNoStepStartsALoginOutsideTheJobIsUsedAndSaid(t *testing.T) {
	for _, tt := range []struct {
		hook, want string
		limit      time.Duration
	}{
		{`echo "srun: error: Access denied" >&2; exit 1`, "Access denied", time.Minute},
		{`sleep 1; exit 1`, errStepSlow.Error(), 200 * time.Millisecond},
	} {
		f := newFakeSlurm(t, tt.hook)
		n, told, _ := insideJob(t, f, "inner", func(l *tunnel.Limits) { l.StepStart = tt.limit }, withNodeLogin(f, "WHERE=node"))
		mustPrint(t, n, "echo $WHERE", "node")
		mustPrint(t, n, "echo $WHERE", "node")
		if text := told.String(); strings.Contains(text, "\n") || !strings.Contains(text, "outside job 7") || !strings.Contains(text, tt.want) || !errors.Is(n.Ends(), errOutside) {
			t.Errorf("told %q, want %q; %v", text, tt.want, n.Ends())
		}
		eventually(t, func() bool { return len(f.lines("runs")) >= 2 }) // one that was given up may still be starting
		if runs := f.lines("runs"); len(runs) != 2 || strings.Contains(runs[0], "--mem=0") || !strings.Contains(runs[1], "--mem=0") {
			t.Errorf("%q", runs)
		}
	}
}

func TestWhatASitesWrapperPrintsIsNoPartOfTheStep(t *testing.T) {
	f := newFakeSlurm(t, `echo "Welcome. Jobs are accounted."; printf "starting ..."; echo "Welcome" >&2`)
	n, _, _ := insideJob(t, f, "refused", nil, nil)
	mustPrint(t, n, "echo $SLURM_JOB_ID", "7")
}

func TestAPBSJobIsAttachedToWhereTheNodeCan(t *testing.T) {
	const attach = `echo "$*" >> $FAKE/attached; test "$1 $2 $3" = "-j 7[1].server -p" && kill -0 $4`
	for _, tt := range []struct {
		attach, job string
		inside      bool
	}{
		{attach, "7[1].server", true},
		{attach, "7[].server", false},
		{"", "7[1].server", false},
	} {
		f := newFakeSlurm(t, "")
		if tt.attach != "" {
			f.program(t, "pbs_attach", tt.attach)
		}
		outer, servers := behind(t, tunnel.DefaultLimits())
		withNodeLogin(f)(servers)
		told := &notices{}
		node := outer.node(Options{Names: []string{"inner"}, QsubJob: tt.job, Notice: told.add})
		mustPrint(t, node, "echo ${TUNCTL_INSIDE-none}", "none")
		if ends := node.Ends(); (ends == nil) != tt.inside || (told.String() == "") != tt.inside || len(f.lines("attached")) > 1 {
			t.Errorf("%+v: %v; told %q; attached %q", tt, ends, told, f.lines("attached"))
		}
		node.Close()
	}
}

func TestALineOfAStepIsOneLine(t *testing.T) {
	if strings.Contains(posixsh.Quote(step.Command()), "\n") {
		t.Error("a host reads only the first line of the command")
	}
}

func TestAStepOfAnArraysTaskIsStartedByTheTasksOwnNumber(t *testing.T) {
	f := newFakeSlurm(t, "")
	f.program(t, "squeue", `test "$*" = "-h -o %A -j 7_2" && echo 9`)
	n, _, _ := insideJob(t, f, "refused", nil, nil)
	n.job.steps.job = "7_2"
	mustPrint(t, n, "echo $SLURM_JOB_ID", "9")
}

// echoOf serves so many bytes back and closes.
func echoOf(t *testing.T, size int) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(c, c, int64(size))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	host, port, _ = net.SplitHostPort(l.Addr().String())
	return host, port
}
