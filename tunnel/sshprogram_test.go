//go:build !windows

package tunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/testport"
	"tunctl/internal/dev/wait"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/openssh"
	"tunctl/tunnel/sshconfig"
)

// masters has every host of the laptop log in by the ssh program.
func (l *laptop) masters() {
	l.preset = func(_ string, s *sshconfig.Settings) { s.Transport = api.TransportOpenSSH }
	l.o.Askpass, _ = os.Executable()
}

// patientLimits are for what must not be taken for dead beside other tests.
func patientLimits() Limits {
	l := PracticeLimits()
	l.DialTimeout, l.HandshakeTimeout, l.ProbeTimeout = wait.Limit, wait.Limit, 5*time.Second
	return l
}

// shortDir is a folder for sockets, whose paths are bounded.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startMasters is a laptop with one host, "open", that ssh logs in to.
func startMasters(t *testing.T, config string) (*laptop, *realServer) {
	t.Helper()
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key))
	l.know(t, s)
	l.serve(t, patientLimits(), fmt.Sprintf("Host open\n Port %d\n%s", s.port, config))
	l.masters()
	return l, s
}

func TestAnSSHOfOursCarriesCommandsAndForwards(t *testing.T) {
	l, _ := startMasters(t, "")
	h := l.up(t, "open")
	if r, err := h.Run(t.Context(), "cat; exit 3", []byte("hello")); err != nil || string(r.Stdout) != "hello" || r.Exit != 3 {
		t.Errorf("Run: %+v %v", r, err)
	}
	echoes(t, h, "tcp", echoServer(t))
	echoes(t, h, "unix", echoAt(t, "unix", filepath.Join(t.TempDir(), "echo")))
	closed := net.JoinHostPort("127.0.0.1", fmt.Sprint(testport.Free(t)))
	if _, err := h.Dial(t.Context(), "tcp", closed); !errors.Is(err, api.ErrRefused) {
		t.Errorf("a dial to a closed port says %v", err)
	}
	if r, err := h.Run(t.Context(), "echo still", nil); err != nil || string(r.Stdout) != "still\n" {
		t.Errorf("after a refused dial: %+v %v", r, err)
	}
	if s := h.Status(); s.Auth != "openssh" || s.State != api.HostUp {
		t.Errorf("status %+v", s)
	}
}

// echoes sends more than fits in pipes and windows to an echo server beyond the host.
func echoes(t *testing.T, h *Host, network, address string) {
	t.Helper()
	c, err := h.Dial(t.Context(), network, address)
	if err != nil {
		t.Fatalf("%s %s: %v", network, address, err)
	}
	defer func() { _ = c.Close() }()
	sent := strings.Repeat("0123456789abcdef", 256<<10)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_, _ = io.WriteString(c, sent)
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	})
	if got, err := io.ReadAll(c); err != nil || string(got) != sent {
		t.Errorf("%s: %d of %d bytes came back, %v", network, len(got), len(sent), err)
	}
}

func TestAnSSHThatDiesIsStartedAgain(t *testing.T) {
	l, s := startMasters(t, "")
	h := l.up(t, "open")
	before := h.Status().Since
	for _, pid := range s.sessions() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	again(t, h, before)
	if r, err := h.Run(t.Context(), "echo again", nil); err != nil || string(r.Stdout) != "again\n" {
		t.Errorf("Run: %+v %v", r, err)
	}
}

func TestSSHProgramAndRefusedNode(t *testing.T) {
	node := startSSHD(t, "") // it accepts no key
	l, _ := startMasters(t, fmt.Sprintf("Host node\n Port %d\n", node.port))
	h := l.up(t, "open")
	since := h.Status().Since
	hop := h.Link().Hop([]string{"node"})
	defer hop.Close()
	if _, err := hop.Dial(t.Context(), "tcp", "127.0.0.1:1"); !failure.IsRoute(err) || failure.Of(err) != failure.Refused {
		t.Errorf("a node that refuses the login: %v", err)
	}
	if r, err := h.Run(t.Context(), "echo still", nil); err != nil || string(r.Stdout) != "still\n" || !h.Status().Since.Equal(since) {
		t.Errorf("after that: %+v %v", r, err)
	}
}

func TestAnSSHOfOursAsksThePersonAndEndsWithUs(t *testing.T) {
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key))
	l.person.answers = []string{"yes"} // its key is not known
	l.serve(t, PracticeLimits(), fmt.Sprintf("Host open\n Port %d\n", s.port))
	l.masters()
	h := l.up(t, "open")
	if q := l.person.questions(); len(q) != 1 || q[0].Kind != api.PromptHostKey || !strings.Contains(q[0].Text, "SHA256:") {
		t.Errorf("asked %+v", q)
	}
	if len(s.sessions()) == 0 {
		t.Fatal("there is no session")
	}
	h.Down()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	for len(s.sessions()) > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			t.Error("the session stays")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestARefusalBySSHIsToldInItsWords(t *testing.T) {
	l, _ := startMasters(t, "")
	_ = writeKey(t, filepath.Join(t.TempDir(), "other"))
	if err := os.Remove(filepath.Join(l.dir, "id")); err != nil {
		t.Fatal(err)
	}
	h := l.Host("open")
	h.Up()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	err := h.Await(ctx)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeAuth || !strings.Contains(e.Message, "Permission denied") {
		t.Errorf("login says %v", err)
	}
}

func TestTooManyFailuresAreARefusalByWhicheverProgramLogsIn(t *testing.T) {
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key), "MaxAuthTries 1")
	l.know(t, s)
	limits := patientLimits()
	limits.RetryMin, limits.RetryMax, limits.LoginSpacing = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	l.serve(t, limits, fmt.Sprintf("Host open\n Port %d\n", s.port))
	l.masters()
	h := l.up(t, "open")
	writeKey(t, filepath.Join(l.dir, "id")) // which the server does not know
	for _, pid := range s.sessions() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	eventually(t, func() bool { return h.Status().State == api.HostBlocked })
	refused := func() int { return strings.Count(s.log.String(), "maximum authentication attempts exceeded") }
	eventually(t, func() bool { return refused() >= limits.Refusals }) // its log comes by a pipe
	if n := refused(); n != limits.Refusals {
		t.Errorf("%d refused logins, want %d", n, limits.Refusals)
	}
	if st := h.Status(); st.Code != api.CodeAuth || !strings.Contains(st.Hint, "IdentitiesOnly") {
		t.Errorf("status %+v", st)
	}
}

func TestAnSSHThatReachesNobodyIsNoLogin(t *testing.T) {
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key))
	l.know(t, s)
	s.stop()
	limits := patientLimits()
	limits.LoginSpacing, limits.RetryMin, limits.RetryMax = time.Hour, time.Hour, time.Hour
	l.serve(t, limits, fmt.Sprintf("Host open\n Port %d\n", s.port))
	l.masters()
	l.o.Memory.Remember("open", func(k *api.Known) { k.Silent = true })
	h := l.Host("open")
	h.Want()
	eventually(t, func() bool { return strings.Contains(h.Status().Cause, "Connection refused") })
	s.start(s.cmd.Path)
	l.NetworkChanged() // which waits for no login's minute
	again(t, h, time.Time{})
}

func TestAnSSHOfOursCarriesBack(t *testing.T) {
	l, _ := startMasters(t, "")
	h := l.up(t, "open")
	carriesBack(t, h)
	path := filepath.Join(shortDir(t), `a:b %h\c`) // which mean something in an argument of ssh
	listener, err := h.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(listener)
	sender, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	say(sender, "whole")
	_ = sender.Close()
	c, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer closing(c)
	if got, err := io.ReadAll(c); string(got) != "whole" || err != nil {
		t.Errorf("from a socket on the host: %q %v", got, err)
	}
}

// carriesBack has the host listen and takes a connection from there, twice: what is
// closed can be opened again.
func carriesBack(t *testing.T, h *Host) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", testport.Free(t))
	for _, at := range []string{address, address, "127.0.0.1:0"} {
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		listener, err := h.Listen(ctx, "tcp", at)
		cancel()
		if err != nil {
			t.Fatalf("listening at %s: %v", at, err)
		}
		at = fmt.Sprintf("127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port)
		var wg sync.WaitGroup
		wg.Go(func() {
			c, err := listener.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		})
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "back")
		_ = c.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(c); string(got) != "back" || err != nil {
			t.Errorf("from the host's listener: %q %v", got, err)
		}
		_ = c.Close()
		wg.Wait()
		if err := listener.Close(); err != nil {
			t.Errorf("closing the listener: %v", err)
		}
		eventually(t, func() bool {
			c, err := net.Dial("tcp", at)
			if err == nil {
				_ = c.Close()
			}
			return err != nil
		})
	}
}

func signal(s *realServer, what syscall.Signal) {
	for _, pid := range s.sessions() {
		_ = syscall.Kill(pid, what)
	}
}

func TestAStreamFromTheHostThatIsCutDoesNotEndLikeAWholeOne(t *testing.T) {
	for name, cut := range map[string]func(*testing.T, *laptop, *realServer){
		"native, the link": func(_ *testing.T, _ *laptop, s *realServer) { signal(s, syscall.SIGKILL) },
		"ssh, the link":    func(_ *testing.T, _ *laptop, s *realServer) { signal(s, syscall.SIGKILL) },
		"ssh, itself":      func(t *testing.T, l *laptop, _ *realServer) { killSSH(t, l) },
	} {
		t.Run(name, func(t *testing.T) {
			l, s := startMasters(t, "")
			if strings.HasPrefix(name, "native") {
				l.preset = func(string, *sshconfig.Settings) {}
			}
			h := l.up(t, "open")
			listener, err := h.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", testport.Free(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer closing(listener)
			sender, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port))
			if err != nil {
				t.Fatal(err)
			}
			defer closing(sender)
			c, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer closing(c)
			say(sender, "half")
			if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			cut(t, l, s)
			if got, err := io.ReadAll(c); err == nil {
				t.Errorf("it ends after %q", got)
			}
		})
	}
}

// killSSH kills the ssh program that has logged in for the laptop.
func killSSH(t *testing.T, l *laptop) {
	t.Helper()
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		line, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(line), "ssh\x00") || !strings.Contains(string(line), filepath.Join(l.dir, "config")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return
	}
	t.Skip("needs /proc to find the ssh program")
}

func TestAProbeFindsAnSSHWhoseLinkIsDead(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("needs /proc to find sshd's processes")
	}
	l, s := startMasters(t, " ServerAliveInterval 600\n") // ssh itself would take its time
	h := l.up(t, "open")
	before := h.Status().Since
	l.NetworkChanged() // to a connection that answers, nothing happens
	if r, err := h.Run(t.Context(), "echo still", nil); err != nil || string(r.Stdout) != "still\n" || h.Status().Since != before {
		t.Errorf("after a probe: %q %v", r.Stdout, err)
	}
	signal(s, syscall.SIGSTOP)
	l.NetworkChanged()
	again(t, h, before)
	if r, err := h.Run(t.Context(), "echo again", nil); err != nil || string(r.Stdout) != "again\n" {
		t.Errorf("Run: %+v %v", r, err)
	}
}

func TestAnSSHOfOursShowsItsHops(t *testing.T) {
	l := newLaptop(t)
	one, two := startSSHD(t, sshtest.Authorized(l.key)), startSSHD(t, sshtest.Authorized(l.key))
	l.know(t, one)
	l.know(t, two)
	l.serve(t, PracticeLimits(), fmt.Sprintf("Host one\n Port %d\nHost two\n Port %d\n ProxyJump one\n", one.port, two.port))
	l.masters()
	if s := l.up(t, "two").Status(); strings.Join(s.Via, " ") != "one" || s.Transport != api.TransportOpenSSH {
		t.Errorf("status %+v", s)
	}
}

func TestASecurityKeyThatWaitsForAFingerIsToldAndNotAsked(t *testing.T) {
	p := newPool(Options{Limits: PracticeLimits()})
	a := attemptOf(p.Host("x"), func(a *attempt) { a.ask.attended = true; a.ask.timeout = newTimeout(time.Minute, func() {}) })
	defer a.ask.timeout.stop()
	a.host.facts.wanted = true
	m, err := openssh.Prepare(t.Context(), openssh.Command{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	asked, stop, err := m.ServeAskpass(t.Context(), a.answerSSH(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := openssh.Askpass(t.Context(), m.AskSocket(), "Confirm user presence for key ED25519-SK SHA256:abc"); err == nil {
		t.Errorf("answered %q", answer)
	}
	stop()
	if s := a.host.Status(); !strings.Contains(s.Cause, "touch your security key") || !asked() {
		t.Errorf("asked %v, status %+v", asked(), s)
	}
}

func TestAnSSHOfOursEndsWhenWeAreKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, which alone can do that")
	}
	l, s := startMasters(t, "")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TMPDIR="+shortDir(t), "TUNCTL_TEST_MASTER="+filepath.Join(l.dir, "config"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "<nil>\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	if len(s.sessions()) == 0 {
		t.Error("there is no session")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, func() bool { return len(s.sessions()) == 0 })
}

// masterUser is a process that has an ssh log in and waits to be killed.
func masterUser(config string) {
	p := newPool(Options{Limits: patientLimits(), Resolver: func() sshconfig.Resolver {
		return sshconfig.Resolver{SSHConfig: config, Preset: func(_ string, s *sshconfig.Settings) { s.Transport = api.TransportOpenSSH }}
	}})
	go func() { _ = p.Serve(context.Background()) }()
	h := p.Host("open")
	h.Up()
	fmt.Println(h.Await(context.Background()))
	select {}
}
