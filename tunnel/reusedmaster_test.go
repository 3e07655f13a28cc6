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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// ownMaster is a laptop whose person has an ssh connection of their own to "open".
type ownMaster struct {
	*laptop
	server *realServer
	socket string
	ssh    *exec.Cmd
}

func newOwnMaster(t *testing.T, extra ...string) *ownMaster {
	t.Helper()
	l := &ownMaster{laptop: newLaptop(t)}
	l.server = startSSHD(t, authorized(l.key), extra...)
	l.know(t, l.server)
	l.socket = filepath.Join(shortDir(t), "cm")
	l.serve(t, patientLimits(), fmt.Sprintf("Host open\n Port %d\n ControlPath %s\n", l.server.port, l.socket))
	l.o.Preset = reuse
	l.connect(t)
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

func reuse(_ string, s *sshconfig.Settings) { s.ReuseMaster = true }

// connect is the person's own ssh.
func (l *ownMaster) connect(t *testing.T) {
	t.Helper()
	l.ssh = exec.Command(realSSH(t), "-F", filepath.Join(l.dir, "config"), "-o", "ControlMaster=auto", "-N", "open")
	if err := l.ssh.Start(); err != nil {
		t.Fatal(err)
	}
	ssh := l.ssh
	t.Cleanup(func() {
		_ = ssh.Process.Kill()
		_ = ssh.Wait()
	})
	eventually(t, func() bool {
		c, err := net.Dial("unix", l.socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// disconnect ends the person's ssh, and leaves its socket behind.
func (l *ownMaster) disconnect() {
	_ = l.ssh.Process.Kill()
	_ = l.ssh.Wait()
}

// stays checks that the person's connection is there and of use.
func (l *ownMaster) stays(t *testing.T) {
	t.Helper()
	out, err := exec.Command("ssh", "-F", filepath.Join(l.dir, "config"), "-o", "ProxyCommand=false", "open", "echo mine").CombinedOutput()
	if err != nil || string(out) != "mine\n" {
		t.Fatalf("the person's own connection: %v %s", err, out)
	}
}

func (l *ownMaster) logins() int { return strings.Count(l.server.log.String(), "Accepted publickey") }

func TestThePersonsOwnConnectionCarriesAllAndStays(t *testing.T) {
	t.Parallel()
	l := newOwnMaster(t)
	h := l.Host("open")
	h.Want() // nobody need be there
	if err := h.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := h.Status(); s.Transport != api.TransportMaster || !strings.Contains(s.TransportWhy, l.socket) {
		t.Errorf("status %+v", s)
	}
	r, err := h.Run(t.Context(), "cat; echo aside >&2; exit 3", []byte("hello"))
	if err != nil || string(r.Stdout) != "hello" || string(r.Stderr) != "aside\n" || r.Exit != 3 {
		t.Errorf("Run: %+v %v", r, err)
	}
	closed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	for range 3 {
		if _, err := h.Dial(t.Context(), "tcp", closed); !errors.Is(err, api.ErrRefused) {
			t.Errorf("a dial to a closed port says %v", err)
		}
	}
	l.stays(t)
	echoes(t, h, "tcp", echoServer(t))
	echoes(t, h, "unix", echoAt(t, "unix", filepath.Join(t.TempDir(), "echo")))
	carriesBack(t, h)
	if _, err := h.Dial(t.Context(), "tcp", closed); !errors.Is(err, api.ErrRefused) {
		t.Errorf("a dial to a closed port says %v", err)
	}
	h.Down()
	eventually(t, func() bool { return h.Status().State == api.HostDown })
	l.stays(t)
	if n := l.logins(); n != 1 {
		t.Errorf("%d logins", n)
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

// carriesBack has the host listen and takes a connection from there, twice: what is
// closed can be opened again.
func carriesBack(t *testing.T, h *Host) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
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

func TestThePersonsOwnConnectionOutlivesOurCrash(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("needs /proc to find sshd's processes")
	}
	l := newOwnMaster(t)
	back, tmp := freePort(t), shortDir(t)
	for range 2 { // what the first one leaves does not stand in the way of the second
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TUNCTL_TEST_REUSE="+filepath.Join(l.dir, "config"), fmt.Sprintf("TUNCTL_TEST_BACK=127.0.0.1:%d", back),
			"TMPDIR="+tmp, "TUNCTL_TEST_ECHO="+echoServer(t), fmt.Sprintf("TUNCTL_TEST_CLOSED=127.0.0.1:%d", freePort(t)))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(out)
		if line, err := said.ReadString('\n'); line != "riding\n" {
			t.Fatalf("the reuser says %q, %v", line, err)
		}
		// The server stands still, so that what is asked for now stays under way.
		signal(l.server, syscall.SIGSTOP)
		_, _ = io.WriteString(in, "go\n")
		if line, err := said.ReadString('\n'); line != "under way\n" {
			t.Fatalf("the reuser says %q, %v", line, err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		signal(l.server, syscall.SIGCONT)
		l.stays(t)
	}
	if n := l.logins(); n != 1 {
		t.Errorf("%d logins", n)
	}
}

func signal(s *realServer, what syscall.Signal) {
	for _, pid := range s.sessions() {
		_ = syscall.Kill(pid, what)
	}
}

// reuser is a process that uses the person's connection in every way and then waits to
// be killed.
func reuser(config string) {
	ctx := context.Background()
	p := NewPool(Options{SSHConfig: config, Limits: patientLimits(), Preset: reuse})
	go func() { _ = p.Serve(ctx) }()
	h := p.Host("open")
	h.Want()
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	must(h.Await(ctx))
	_, err := h.Dial(ctx, "tcp", os.Getenv("TUNCTL_TEST_CLOSED"))
	if !errors.Is(err, api.ErrRefused) {
		must(fmt.Errorf("a dial to a closed port says %w", err))
	}
	c, err := h.Dial(ctx, "tcp", os.Getenv("TUNCTL_TEST_ECHO"))
	must(err)
	_, err = io.WriteString(c, "ping")
	must(err)
	_, err = h.Listen(ctx, "tcp", os.Getenv("TUNCTL_TEST_BACK"))
	must(err)
	fmt.Println("riding")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	live, err := h.current()
	must(err)
	for range 3 {
		go func() { _, _ = h.Dial(ctx, "tcp", os.Getenv("TUNCTL_TEST_ECHO")) }()
		go func() { _, _ = h.Dial(ctx, "tcp", os.Getenv("TUNCTL_TEST_CLOSED")) }()
		go func() { _, _ = h.Run(ctx, "sleep 100", nil) }()
	}
	go live.probeSession()
	time.Sleep(200 * time.Millisecond) // nothing tells that a question is on its way
	fmt.Println("under way")
	select {}
}

func TestWithoutThePersonsConnectionWeMakeOurOwnAndRideTheNext(t *testing.T) {
	t.Parallel()
	l := newOwnMaster(t)
	h := l.up(t, "open")
	if s := h.Status(); s.Transport != api.TransportMaster {
		t.Fatalf("status %+v", s)
	}
	before := time.Now()
	l.disconnect()
	// Riding told nothing of how a login goes: that is a person's to begin.
	if err := awaitState(t, h, api.HostNeedsLogin); err != nil {
		t.Fatal(err)
	}
	l.connect(t) // a new one is noticed
	again(t, h, before)
	if s := h.Status(); s.Transport != api.TransportMaster {
		t.Fatalf("status %+v", s)
	}
	l.disconnect()
	if err := awaitState(t, h, api.HostNeedsLogin); err != nil {
		t.Fatal(err)
	}
	before = time.Now()
	h.Up()
	again(t, h, before)
	if s := h.Status(); s.Transport != api.TransportNative || s.Auth != "publickey" || s.TransportWhy != "" {
		t.Errorf("status %+v", s)
	}
	h.Down()
	eventually(t, func() bool { return h.Status().State == api.HostDown })
	l.connect(t)
	h = l.up(t, "open")
	if s := h.Status(); s.Transport != api.TransportMaster {
		t.Errorf("status %+v", s)
	}
}

func awaitState(t *testing.T, h *Host, want api.HostState) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	for {
		changed := h.Changed()
		if h.Status().State == want {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("not %s: %+v", want, h.Status())
		}
	}
}

func TestAProbeLeavesThePersonsConnectionAlone(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("needs /proc to find sshd's processes")
	}
	l := newOwnMaster(t)
	h := l.up(t, "open")
	signal(l.server, syscall.SIGSTOP)
	l.NetworkChanged()
	if err := awaitState(t, h, api.HostConnecting); err != nil {
		t.Error(err)
	}
	signal(l.server, syscall.SIGCONT)
	l.stays(t)
	if err := awaitState(t, h, api.HostUp); err != nil || h.Status().Transport != api.TransportMaster {
		t.Errorf("%v, status %+v", err, h.Status())
	}
}

func TestCommandsTakeTurnsOnAConnectionOfThePersonsToo(t *testing.T) {
	t.Parallel()
	h := newOwnMaster(t, "MaxSessions 2").up(t, "open")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if r, err := h.Run(t.Context(), "sleep 0.2; echo ok", nil); err != nil || string(r.Stdout) != "ok\n" {
				t.Errorf("six commands where two sessions are allowed: %q %v", r.Stdout, err)
			}
		})
	}
	wg.Wait()
}

func TestASocketThatLendsNothingIsTriedOnce(t *testing.T) {
	t.Parallel()
	l := newOwnMaster(t)
	h := l.up(t, "open")
	l.disconnect()
	if err := awaitState(t, h, api.HostNeedsLogin); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(l.socket); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	fake, err := net.Listen("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, fake, func(net.Conn) { asked <- struct{}{} })
	<-asked
	if err := awaitState(t, h, api.HostNeedsLogin); err != nil {
		t.Error(err)
	}
	if h.newControlSocket() != nil {
		t.Error("it would be asked again")
	}
	if n := l.logins(); n != 1 {
		t.Errorf("%d logins", n)
	}
}
