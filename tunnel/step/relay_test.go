//go:build linux

package step

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/testport"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
)

func TestTheRelayIsPythonThreePointSix(t *testing.T) {
	testprogram.Need(t, "python3")
	check := exec.Command("python3", "-c", "import ast, sys; ast.parse(sys.stdin.read(), **({\"feature_version\": (3, 6)} if sys.version_info >= (3, 8) else {}))")
	check.Stdin = strings.NewReader(relay)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheCommandNeedsNoQuotesOfItsOwn(t *testing.T) {
	if strings.ContainsAny(Command(), "'\n") {
		t.Error(Command())
	}
}

func TestTextOfStartUpFilesBeforeTheRelayIsSkipped(t *testing.T) {
	testprogram.Need(t, "python3")
	p := newShell(t, "echo Welcome to the cluster; printf 'no line end'; "+Command())
	c, err := Start(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if out, _, _ := output(t, c, "echo here"); out != "here\n" {
		t.Errorf("%q", out)
	}
	_ = c.Close()
}

// background starts a program with those variables only, whose first line of output is
// returned. It ends with the test.
func background(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(buf[:n]))
}

const listen = `import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(5)
print(s.getsockname()[1], flush=True)
time.sleep(600)`

func TestProgramsHaveTheEnvironmentOfTheJobsServer(t *testing.T) {
	testprogram.Need(t, "python3")
	job := strconv.Itoa(os.Getpid()) + "77"
	tmp := t.TempDir()
	id := "SLURM_JOB_ID=" + job
	background(t, []string{id, "FROM=batch script", "SLURM_PROCID=0", "TMPDIR=" + tmp}, "sh", "-c", "echo started; exec "+idle)
	port, err := strconv.Atoi(background(t, []string{
		id, "FROM=server", "CUDA_VISIBLE_DEVICES=3", "TMPDIR=/nowhere", "XDG_RUNTIME_DIR=/nowhere",
		"DISPLAY=:7", "SSH_CONNECTION=x", "SSH_AUTH_SOCK=/nowhere", "TERM=vt52",
	}, "python3", "-c", listen))
	if err != nil {
		t.Fatal(err)
	}
	const show = `echo "$FROM/$CUDA_VISIBLE_DEVICES/$SLURM_PROCID/$SLURM_STEP_ID/$TMPDIR/$XDG_RUNTIME_DIR/$DISPLAY/$SSH_CONNECTION$SSH_AUTH_SOCK/$TERM/$USER/$LANG"`
	user := os.Getenv("USER")
	if out, err := exec.Command("id", "-un").Output(); err == nil {
		user = strings.TrimSpace(string(out))
	}
	own := []string{"SLURM_JOB_ID=" + job, "FROM=step", "SLURM_PROCID=9", "SLURM_STEP_ID=4", "TMPDIR=" + tmp, "XDG_RUNTIME_DIR=" + tmp}
	for _, test := range []struct {
		options      Options
		environ, out string
		inside       bool
	}{
		{Options{Job: job, Port: port}, "server", "server/3///////dumb/" + user + "/xx", true},
		{Options{Job: job, Port: 1}, "job", "batch script//0//" + tmp + "////dumb/" + user + "/xx", true},
		{Options{Job: "another"}, "step", "step////" + tmp + "/" + tmp + "///dumb/" + user + "/xx", false},
	} {
		c := newConn(t, test.options, own...)
		info := c.Info()
		name, _ := os.Hostname()
		if info.Where == "" || info != (Info{name, test.inside, test.environ, info.Where}) {
			t.Errorf("%+v: %+v", test.options, info)
		}
		p := newSession(t, c)
		p.must(t, "env", struct{ Name, Value string }{"LANG", "xx"})
		if ok, _ := p.SendRequest("env", true, ssh.Marshal(struct{ Name, Value string }{"LD_PRELOAD", "x"})); ok {
			t.Error("a client may set LD_PRELOAD")
		}
		p.must(t, "exec", text{show})
		out, aside := p.all(t)
		// bash itself sets TERM=dumb where there is none, other shells do not.
		if strings.Replace(out, "//"+user+"/", "/dumb/"+user+"/", 1) != test.out+"\n" {
			t.Errorf("%s: %q, not %q (%s)", test.environ, out, test.out, aside)
		}
	}
}

func TestWhatBelongsToTheServersProcessStaysThere(t *testing.T) {
	testprogram.Need(t, "python3")
	own := []string{
		"NODE_CHANNEL_FD=9", "NODE_CHANNEL_SERIALIZATION_MODE=json", "NODE_UNIQUE_ID=1", "CODE_SERVER_PARENT_PID=1", "VSCODE_IPC_HOOK_CLI=/x",
		"ELECTRON_RUN_AS_NODE=1", "LISTEN_FDS=1", "LISTEN_PID=1", "NOTIFY_SOCKET=/x", "WATCHDOG_USEC=1", "JOURNAL_STREAM=1:2", "GUNICORN_FD=5",
	}
	port, err := strconv.Atoi(background(t, append([]string{"FROM=server", "NODE_OPTIONS=--max-old-space-size=99"}, own...), "python3", "-c", listen))
	if err != nil {
		t.Fatal(err)
	}
	out, _, _ := output(t, newConn(t, Options{Port: port}), "env")
	if !strings.Contains(out, "FROM=server\n") || !strings.Contains(out, "NODE_OPTIONS=") {
		t.Errorf("not the environment of the server:\n%s", out)
	}
	for _, line := range own {
		if strings.Contains(out, line) {
			t.Errorf("a program has the server's %s", line)
		}
	}
}

func TestAServerThatStartsLaterGivesItsEnvironment(t *testing.T) {
	port := testport.Free(t)
	c := newConn(t, Options{Port: port})
	if c.Info().Environ != "step" {
		t.Error(c.Info())
	}
	background(t, []string{"FROM=server"}, "python3", "-c", strings.Replace(listen, "0))", strconv.Itoa(port)+"))", 1))
	for deadline := time.Now().Add(longest); ; {
		out, _, _ := output(t, c, "echo $FROM")
		if out == "server\n" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q", out)
		}
	}
}

func TestTheEnvironmentIsTheServersOnceItsPortIsKnown(t *testing.T) {
	c := newConn(t, Options{})
	if out, _, _ := output(t, c, "echo $FROM"); out != "\n" {
		t.Errorf("%q", out)
	}
	port, err := strconv.Atoi(background(t, []string{"FROM=server"}, "python3", "-c", listen))
	if err != nil {
		t.Fatal(err)
	}
	c.SetServer(port)
	if out, _, _ := output(t, c, "echo $FROM"); out != "server\n" {
		t.Errorf("%q", out)
	}
	c.SetServer(0)
	if out, _, _ := output(t, c, "echo $FROM"); out != "\n" {
		t.Errorf("%q", out)
	}
}

func TestSFTPIsTheNodesOwn(t *testing.T) {
	c := newConn(t, Options{})
	p := newSession(t, c)
	p.must(t, "pty-req", ptyRequest{Term: "xterm"})
	if ok, err := p.SendRequest("subsystem", true, ssh.Marshal(text{"sftp"})); errors.Is(err, ErrNoSFTP) && os.Getenv("TUNCTL_REAL") != "1" {
		t.Skip(err)
	} else if !ok || err != nil {
		t.Fatal(ok, err)
	}
	client, err := sftp.NewClientPipe(p, p)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	f, err := client.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("\r\n\x03\x04"), 1<<20)
	if _, err := f.ReadFrom(bytes.NewReader(want)); err != nil {
		t.Error(err)
	}
	_ = f.Close()
	_ = client.Close()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_ = p.Close()

	other := newSession(t, c)
	for request, payload := range map[string]any{
		"subsystem": text{"netconf"}, "x11-req": text{}, "auth-agent-req@openssh.com": text{}, "break": text{},
	} {
		if ok, err := other.SendRequest(request, true, ssh.Marshal(payload)); ok || err != nil {
			t.Errorf("%s: %v, %v", request, ok, err)
		}
	}
	_ = other.Close()
}

func TestANodeWithoutSFTPSaysSo(t *testing.T) {
	python := testprogram.Need(t, "python3")
	original := relay
	relay = strings.ReplaceAll(relay, `"/usr/lib`, `"/nowhere`)
	defer func() { relay = original }()
	c := newConn(t, Options{}, "PATH=/bin:"+filepath.Dir(python))
	p := newSession(t, c)
	if ok, err := p.SendRequest("subsystem", true, ssh.Marshal(text{"sftp"})); ok || !errors.Is(err, ErrNoSFTP) {
		t.Error(ok, err)
	}
	p.must(t, "exec", text{"exit 4"}) // the session can still be used
	if exit := p.exit(t); exit != "status 4" {
		t.Error(exit)
	}
}

// serve accepts one connection and serves it.
func serve(t *testing.T, network, address string, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				f(c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

func TestConnectionsCloseOneWayAtATime(t *testing.T) {
	// This server sends, half-closes, and only then reads to the end.
	received := make(chan string, 3)
	f := func(c net.Conn) {
		_, _ = io.WriteString(c, "greeting")
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
		all, _ := io.ReadAll(c)
		received <- string(all)
	}
	tcp := serve(t, "tcp", "127.0.0.1:0", f)
	unix := serve(t, "unix", filepath.Join(t.TempDir(), "s"), f)
	_, port, _ := net.SplitHostPort(tcp)
	c := newConn(t, Options{})
	for _, to := range [][2]string{{"tcp", tcp}, {"unix", unix}, {"tcp", "localhost:" + port}} {
		nc, err := c.Dial(t.Context(), to[0], to[1], []byte("early, "))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(nc); string(got) != "greeting" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		_, _ = io.WriteString(nc, "still open")
		_ = nc.(halfCloser).CloseWrite()
		if got := <-received; got != "early, still open" {
			t.Errorf("%q", got)
		}
		_ = nc.Close()
	}
}

func TestWhatIsWrittenFirstIsSentWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newConnection(Options{}) // nobody answers
		go func() { _, _ = c.Dial(ctx, "tcp", "cn01:8888", []byte("GET / HTTP/1.1\r\n\r\n")) }()
		synctest.Wait()
		sent := newFrameReader(bytes.NewReader(c.stream.kept))
		for _, kind := range []byte{kindOpen, kindData} {
			if f, err := sent.next(); err != nil || f.kind != kind {
				t.Errorf("a frame of kind %d instead of %d: %v", f.kind, kind, err)
			}
		}
		cancel()
	})
}

// TestAServerThatDoesNotAnswerIsConnectedAllTheSame: the relay waits a moment for the answer.
func TestAServerThatDoesNotAnswerIsConnectedAllTheSame(t *testing.T) {
	received := make(chan string, 1)
	address := serve(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		got, _ := io.ReadAll(c)
		received <- string(got)
	})
	c := newConn(t, Options{})
	nc, err := c.Dial(t.Context(), "tcp", address, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(nc, ", second")
	_ = nc.(halfCloser).CloseWrite()
	if got := <-received; got != "first, second" {
		t.Errorf("the server received %q", got)
	}
	_ = nc.Close()
}

func TestANameIsLookedUpOnTheNode(t *testing.T) {
	address := serve(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.WriteString(c, "here") })
	_, port, _ := net.SplitHostPort(address)
	c := newConn(t, Options{})
	nc, err := c.Dial(t.Context(), "tcp", "ip6-localhost:"+port, nil)
	if err == nil { // the name stands for ::1, where nothing listens
		t.Error("connected")
		_ = nc.Close()
	}
	for _, host := range []string{"LOCALHOST", "LocalHost"} {
		nc, err := c.Dial(t.Context(), "tcp", host+":"+port, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := io.ReadAll(nc); string(got) != "here" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		_ = nc.Close()
	}
}

func TestRefusalsAreTheSystemsOwnWords(t *testing.T) {
	port := testport.Free(t)
	c := newConn(t, Options{})
	if _, err := c.Dial(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil); !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "Connection refused") {
		t.Error(err)
	}
	if _, err := c.Dial(t.Context(), "unix", "/nowhere/s", nil); !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "No such file") {
		t.Error(err)
	}
	payload := ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{"127.0.0.1", uint32(port), "", 0})
	for kind, want := range map[string]ssh.RejectionReason{
		"direct-tcpip": ssh.ConnectionFailed, "direct-streamlocal@openssh.com": ssh.ConnectionFailed, "x11": ssh.UnknownChannelType,
	} {
		_, _, err := c.OpenChannel(t.Context(), kind, payload)
		if refused, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || refused.Reason != want {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if n := channelsOf(c); n != 0 {
		t.Errorf("%d channels are open", n)
	}
}

func TestAChannelThatNobodyReadsDoesNotHoldUpTwentyFourOthers(t *testing.T) {
	c := newConn(t, Options{})
	stuck := run(t, c, "yes")
	full := run(t, c, idle) // does not read its input
	var filling sync.WaitGroup
	filling.Go(func() { _, _ = full.Write(make([]byte, 2*windowSize)) })
	address := serve(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(c, c) })
	data := bytes.Repeat([]byte("0123456789abcdef"), 140_000) // more than a window
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			nc, err := c.Dial(t.Context(), "tcp", address, nil)
			if err != nil {
				t.Error(err)
				return
			}
			wg.Go(func() {
				_, _ = nc.Write(data)
				_ = nc.(halfCloser).CloseWrite()
			})
			got, err := io.ReadAll(nc)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes: %v", len(got), err)
			}
			_ = nc.Close()
		})
	}
	wg.Wait()
	if n := channelsOf(c); n != 2 {
		t.Errorf("%d channels are open", n)
	}
	// yes has filled its window by now, or will.
	for buf := make([]byte, 1<<20); buf != nil; {
		n, err := stuck.Read(buf)
		if err != nil || !bytes.Contains(buf[:n], []byte("y")) {
			t.Error(n, err)
		}
		buf = nil
	}
	_ = stuck.Close()
	_ = full.Close()
	filling.Wait()
}

// started reads the process id that a program prints.
func started(t *testing.T, p *program) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(readUntil(t, p, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	leaveNone(t, pid)
	return pid
}

// leaveNone ends a program with its children when the test is over, also when it failed.
func leaveNone(t *testing.T, pid int) {
	t.Helper()
	t.Cleanup(func() {
		if group, err := syscall.Getpgid(pid); err == nil && group != syscall.Getpgrp() {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
	})
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(longest); alive(pid); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("process %d runs on", pid)
		}
	}
}

func TestAClosedChannelEndsItsProgramAndLeavesServersAlone(t *testing.T) {
	c := newConn(t, Options{})
	// As the script of an editor does: the server is put in the background, without a
	// terminal, and the shell waits for more.
	p := run(t, c, idle+" >/dev/null 2>&1 </dev/null & echo $!; cat; true")
	server := started(t, p)
	wait.Until(t, "the server has let go of the channel", func() bool {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", server))
		return string(comm) == "tail\n"
	})
	q := newSession(t, c)
	q.must(t, "pty-req", ptyRequest{Term: "xterm", Modes: "\x35\x00\x00\x00\x00\x00"})
	q.must(t, "exec", text{"echo $$; " + idle + "; true"})
	shell := started(t, q)
	r := run(t, c, "sh -c 'echo $$; exec "+idle+"'; true")
	child := started(t, r)
	_ = p.Close()
	_ = q.Close()
	_ = r.Close()
	awaitEnd(t, shell)
	awaitEnd(t, child)
	if !alive(server) {
		t.Error("the server ended with its channel")
	}
}

func TestNothingIsLeftWhenTheConnectionIsLost(t *testing.T) {
	for name, options := range map[string]Options{"no job": {}, "outside of its job": {Job: "none such"}} {
		p := newProcess(t)
		c, err := Start(t.Context(), p, options)
		if err != nil {
			t.Fatal(err)
		}
		var pids []int
		stubborn := run(t, c, "trap '' HUP; echo $$; while :; do sleep 1; done")
		pids = append(pids, started(t, stubborn))
		shell := newSession(t, c)
		shell.must(t, "pty-req", ptyRequest{Term: "xterm", Modes: "\x35\x00\x00\x00\x00\x00"})
		shell.must(t, "exec", text{idle + " & echo $!; wait"})
		pids = append(pids, started(t, shell))
		daemon := run(t, c, "setsid "+idle+" >/dev/null 2>&1 </dev/null & echo $!")
		server := started(t, daemon)
		daemon.exit(t)
		_ = p.Close() // as if the agent was killed
		if err := p.ended(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, pid := range append(pids, p.cmd.Process.Pid) {
			awaitEnd(t, pid)
		}
		if options.Job != "" {
			awaitEnd(t, server) // nothing else would end it
		} else if !alive(server) {
			t.Error("a person's server was ended")
		}
		<-c.Done()
		// An acknowledgement may be the first to notice.
		why := c.Err()
		if !errors.Is(why, errEnded) && !errors.Is(why, os.ErrClosed) {
			t.Error(why)
		}
		if _, err := shell.Read(make([]byte, 1)); !errors.Is(err, why) {
			t.Error(err)
		}
		if _, err := c.Dial(t.Context(), "tcp", "127.0.0.1:1", nil); !errors.Is(err, why) {
			t.Error(err)
		}
		_ = c.Close()
	}
}

func TestTheRelayEndsWithoutAClientWhoseEndNobodyReports(t *testing.T) {
	c := newSilent(t, Options{}, time.Second, "echo $$; "+idle+"; true")
	if err := c.way.ended(); err != nil { // no ping is due yet
		t.Error(err)
	}
	awaitEnd(t, c.pid)
	_ = c.Close()
}

func TestWaitingForTheRelayEndsWithTheContext(t *testing.T) {
	p := newShell(t, "exec "+idle)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pr, pw := io.Pipe()
	if _, err := Start(ctx, struct {
		io.Reader
		io.WriteCloser
	}{pr, &closeBoth{p, pw, cancel}}, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_ = p.cmd.Process.Kill()
}

// closeBoth ends reads too, as closing an SSH session does.
type closeBoth struct {
	io.Writer
	reads *io.PipeWriter
	wrote func()
}

func (c *closeBoth) Write(b []byte) (int, error) {
	defer c.wrote()
	return c.Writer.Write(b)
}

func (c *closeBoth) Close() error { return c.reads.CloseWithError(io.EOF) }

func TestRelayFiles(t *testing.T) {
	names, err := fs.Glob(files, "relay/*.py")
	if err != nil || len(names) < 10 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		if text, err := files.ReadFile(name); err != nil || !strings.Contains(relay, string(text)) {
			t.Errorf("%s is not part of the relay: %v", name, err)
		}
	}
}
