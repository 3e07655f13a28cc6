//go:build !windows

package tunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
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
	"tunctl/internal/dev/testport"
	"tunctl/internal/dev/testprogram"
	"tunctl/tunnel/sshconfig"
)

// realServer is an OpenSSH server on loopback that logs the test's own user in.
type realServer struct {
	t    testing.TB
	dir  string
	port int
	key  ssh.PublicKey // the host key
	cmd  *exec.Cmd
	log  *sshdLog
}

// sshdLog is what sshd says; listening closes when it says that it listens.
type sshdLog struct {
	mu        sync.Mutex
	b         bytes.Buffer
	listening chan struct{}
	once      sync.Once
}

func (s *sshdLog) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.b.Write(p)
	if bytes.Contains(s.b.Bytes(), []byte("Server listening on")) {
		s.once.Do(func() { close(s.listening) })
	}
	return n, err
}

func (s *sshdLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// startSSHD runs a real sshd with extra config lines.
func startSSHD(t testing.TB, authorizedKeys string, extra ...string) *realServer {
	t.Helper()
	needRealParts(t)
	program := ""
	for _, p := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"} {
		if _, err := os.Stat(p); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		testprogram.Missing(t, "an OpenSSH server")
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &realServer{t: t, dir: t.TempDir(), port: testport.Free(t)}
	hostKey := filepath.Join(s.dir, "hostkey")
	s.key = writeKey(t, hostKey)
	write(t, filepath.Join(s.dir, "authorized_keys"), authorizedKeys)
	home := filepath.Join(s.dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	config := []string{
		fmt.Sprintf("Port %d", s.port), "ListenAddress 127.0.0.1", "HostKey " + hostKey, "PidFile none", "UsePAM no",
		"StrictModes no", "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"SetEnv HOME=" + home, // nobody's .bashrc, which can take its time, and may not like a kill
		"AuthorizedKeysFile " + filepath.Join(s.dir, "authorized_keys"),
	}
	if sshtest.SSHD98OrNewer() {
		config = append(config, "PerSourcePenalties no")
	}
	write(t, filepath.Join(s.dir, "sshd_config"), strings.Join(append(extra, config...), "\n")+"\n")
	s.start(program)
	t.Cleanup(s.stop)
	return s
}

func (s *realServer) start(program string) {
	s.t.Helper()
	s.cmd = exec.Command(program, "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	s.log = &sshdLog{listening: make(chan struct{})}
	s.cmd.Stderr = s.log
	s.cmd.WaitDelay = time.Second
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.log.listening:
	case <-time.After(longest):
		s.t.Fatalf("sshd does not listen: %s", s.log.String())
	}
}

// stop ends the server and its sessions.
func (s *realServer) stop() {
	for _, pid := range s.sessions() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// sessions are the processes of the server's live connections, and their children.
func (s *realServer) sessions() []int {
	var pids []int
	queue := []int{s.cmd.Process.Pid}
	for len(queue) > 0 {
		out, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", queue[0], queue[0]))
		queue = queue[1:]
		for _, f := range strings.Fields(string(out)) {
			pid, _ := strconv.Atoi(f)
			pids = append(pids, pid)
			queue = append(queue, pid)
		}
	}
	return pids
}

// writeKey makes a key pair at path and path.pub.
func writeKey(t testing.TB, path string) ssh.PublicKey {
	t.Helper()
	public := sshtest.WriteKey(t, path)
	write(t, path+".pub", sshtest.Authorized(public)+"\n")
	return public
}

// laptop is a pool that reads a real ssh_config and dials real sockets.
type laptop struct {
	*Pool
	person *person
	dir    string
	key    ssh.PublicKey
	preset func(name string, s *sshconfig.Settings) // nil: none
}

func newLaptop(t testing.TB) *laptop {
	t.Helper()
	l := &laptop{person: &person{}, dir: t.TempDir()}
	l.key = writeKey(t, filepath.Join(l.dir, "id"))
	return l
}

// serve writes the ssh_config and runs the pool.
func (l *laptop) serve(t testing.TB, limits Limits, config string) {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.dir, "config")
	write(t, file, config+fmt.Sprintf("\nHost *\n HostName 127.0.0.1\n User %s\n IdentityFile %s\n IdentityAgent none\n UserKnownHostsFile %s\n GlobalKnownHostsFile none\n",
		me.Username, filepath.Join(l.dir, "id"), filepath.Join(l.dir, "known_hosts")))
	l.Pool = newPool(Options{
		Resolver: func() sshconfig.Resolver { return sshconfig.Resolver{SSHConfig: file, Preset: l.preset} },
		Prompter: l.person, Limits: limits,
	})
	l.network.Watch = func(ctx context.Context, _ func(), _ *slog.Logger) { <-ctx.Done() } // this machine's network is not the test's
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Serve(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// know adds a server's key to known_hosts.
func (l *laptop) know(t testing.TB, s *realServer) {
	t.Helper()
	if err := addLine(filepath.Join(l.dir, "known_hosts"), fmt.Sprintf("[127.0.0.1]:%d %s\n", s.port, sshtest.Authorized(s.key))); err != nil {
		t.Fatal(err)
	}
}

func (l *laptop) up(t testing.TB, name string) *Host {
	t.Helper()
	h := l.Host(name)
	h.Up()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if err := h.Await(ctx); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return h
}

// again waits until the host has lost its connection and is connected anew.
func again(t testing.TB, h *Host, before time.Time) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	for {
		changed := h.Changed()
		if s := h.Status(); s.State == api.HostUp && s.Since.After(before) {
			t.Logf("usable again after %v", time.Since(start).Round(time.Millisecond))
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("not connected again: %+v", h.Status())
		}
	}
}

func TestOpenSSHCommandsAndForwards(t *testing.T) {
	l := newLaptop(t)
	open := startSSHD(t, sshtest.Authorized(l.key))
	closed := startSSHD(t, sshtest.Authorized(l.key), "AllowTcpForwarding no", "MaxSessions 2")
	l.know(t, open)
	l.know(t, closed)
	l.serve(t, DefaultLimits(), fmt.Sprintf("Host open\n Port %d\nHost closed\n Port %d\n", open.port, closed.port))

	h := l.up(t, "open")
	if r, err := h.Run(t.Context(), "cat; exit 3", []byte("hello")); err != nil || string(r.Stdout) != "hello" || r.Exit != 3 {
		t.Errorf("Run: %+v %v", r, err)
	}
	echo := echoServer(t)
	c, err := h.Dial(t.Context(), "tcp", echo)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "through sshd")
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "through sshd" || err != nil {
		t.Errorf("echo: %q %v", got, err)
	}
	_ = c.Close()
	if _, err := h.Dial(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", testport.Free(t))); !errors.Is(err, api.ErrRefused) {
		t.Errorf("a closed port: %v", err)
	}
	listener, err := h.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()

	h = l.up(t, "closed")
	if _, err := h.Dial(t.Context(), "tcp", echo); !errors.Is(err, api.ErrProhibited) {
		t.Errorf("where forwarding is off: %v", err)
	}
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

func echoServer(t testing.TB) string { return echoAt(t, "tcp", "127.0.0.1:0") }

func echoAt(t testing.TB, network, address string) string {
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
				_, _ = io.Copy(c, c)
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

func TestOpenSSHHostKeysAndCertificates(t *testing.T) {
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key))
	l.person.answers = []string{"yes"}
	l.serve(t, DefaultLimits(), fmt.Sprintf("Host new\n Port %d\n", s.port))
	l.up(t, "new")
	q := l.person.questions()
	if len(q) != 1 || q[0].Fingerprint != ssh.FingerprintSHA256(s.key) {
		t.Errorf("asked %+v", q)
	}
	if out, err := exec.Command("ssh-keygen", "-F", fmt.Sprintf("[127.0.0.1]:%d", s.port), "-f", filepath.Join(l.dir, "known_hosts")).CombinedOutput(); err != nil {
		t.Errorf("ssh-keygen does not find the key we added: %v %s", err, out)
	}
}

func TestOpenSSHAcceptsACertificate(t *testing.T) {
	l := newLaptop(t)
	ca := sshtest.NewSigner(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	trusted := filepath.Join(t.TempDir(), "ca.pub")
	write(t, trusted, sshtest.Authorized(ca.PublicKey()))
	s := startSSHD(t, "", "TrustedUserCAKeys "+trusted)
	l.know(t, s)
	cert := &ssh.Certificate{
		Key: l.key, CertType: ssh.UserCert, ValidPrincipals: []string{me.Username}, ValidBefore: ssh.CertTimeInfinity,
		Permissions: ssh.Permissions{Extensions: map[string]string{"permit-port-forwarding": ""}},
	}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(l.dir, "id-cert.pub"), sshtest.Authorized(cert))
	l.serve(t, DefaultLimits(), fmt.Sprintf("Host cert\n Port %d\n", s.port))
	l.up(t, "cert")
}

func TestOpenSSHRefusesAKeyInWordsThatHelp(t *testing.T) {
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(sshtest.NewSigner(t).PublicKey()))
	l.know(t, s)
	l.serve(t, DefaultLimits(), fmt.Sprintf("Host wrong\n Port %d\n", s.port))
	h := l.Host("wrong")
	h.Up()
	err := h.Await(t.Context())
	if codeOf(err) != api.CodeAuth || !strings.Contains(err.Error(), ssh.FingerprintSHA256(l.key)) {
		t.Errorf("Await: %v", err)
	}
}

func TestOpenSSHThroughTwoHopsAndACommand(t *testing.T) {
	l := newLaptop(t)
	one, two, three := startSSHD(t, sshtest.Authorized(l.key)), startSSHD(t, sshtest.Authorized(l.key)), startSSHD(t, sshtest.Authorized(l.key))
	for _, s := range []*realServer{one, two, three} {
		l.know(t, s)
	}
	config := fmt.Sprintf("Host one\n Port %d\nHost two\n Port %d\nHost three\n Port %d\n ProxyJump one,two\n", one.port, two.port, three.port)
	config += fmt.Sprintf("Host command\n Port %d\n ProxyCommand env TUNCTL_TEST_NETCAT=%%h:%%p %s\n", one.port, os.Args[0])
	config += fmt.Sprintf("Host broken\n Port %d\n ProxyCommand sh -c 'echo the proxy is closed today >&2; exit 1'\n", one.port)
	l.serve(t, DefaultLimits(), config)
	h := l.up(t, "three")
	if r, err := h.Run(t.Context(), "echo $SSH_CONNECTION", nil); err != nil || !strings.Contains(string(r.Stdout), fmt.Sprint(three.port)) {
		t.Errorf("Run: %q %v", r.Stdout, err)
	}
	if via := h.Status().Via; strings.Join(via, " ") != "one two" {
		t.Errorf("via %q", via)
	}
	h = l.up(t, "command")
	if r, err := h.Run(t.Context(), "echo ok", nil); err != nil || string(r.Stdout) != "ok\n" {
		t.Errorf("Run: %q %v", r.Stdout, err)
	}
	h.Down()
	broken := l.Host("broken")
	broken.Up()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if err := broken.Await(ctx); err == nil || !strings.Contains(err.Error(), "the proxy is closed today") {
		t.Errorf("a broken ProxyCommand: %v", err)
	}
}

func TestAProxyCommandMayTakeALoginsTimeBeforeTheBanner(t *testing.T) {
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key))
	l.know(t, s)
	limits := PracticeLimits()
	limits.BannerTimeout = 10 * time.Millisecond
	l.serve(t, limits, fmt.Sprintf("Host slow\n Port %d\n ProxyCommand sh -c 'sleep 0.5; exec env TUNCTL_TEST_NETCAT=%%h:%%p %s'\n", s.port, os.Args[0]))
	l.up(t, "slow")
}

func TestAProxyCommandWithoutABannerIsNamedWithWhatItSaid(t *testing.T) {
	l := newLaptop(t)
	limits := PracticeLimits()
	limits.DialTimeout, limits.HandshakeTimeout, limits.BannerTimeout = time.Second, time.Millisecond, time.Millisecond
	l.serve(t, limits, "Host mute\n ProxyCommand sh -c 'echo waiting for the VPN >&2; exec sleep 600'\n")
	h := l.Host("mute")
	h.Up()
	err := h.Await(t.Context())
	if codeOf(err) != api.CodeUnreachable || !strings.Contains(err.Error(), "ProxyCommand passed on no SSH banner within 1 s; its output: waiting for the VPN") {
		t.Errorf("Await: %v", err)
	}
}

func TestRefusedLoginsOfAProxyCommandAreCounted(t *testing.T) {
	l := newLaptop(t)
	gate := startSSHD(t, "") // it knows no key
	known := filepath.Join(l.dir, "gate_known")
	write(t, known, fmt.Sprintf("[127.0.0.1]:%d %s\n", gate.port, sshtest.Authorized(gate.key)))
	limits := patientLimits()
	limits.RetryMin, limits.RetryMax, limits.LoginSpacing = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	l.serve(t, limits, fmt.Sprintf("Host inner\n ProxyCommand ssh -F none -o BatchMode=yes -o UserKnownHostsFile=%s -o IdentityAgent=none -i %s -p %d -W %%h:%%p 127.0.0.1\n",
		known, filepath.Join(l.dir, "id"), gate.port))
	l.o.Memory.Remember("inner", func(k *api.Known) { k.Silent = true })
	h := l.Host("inner")
	h.Want()
	eventually(t, func() bool { // what is remembered follows the state
		return h.Status().State == api.HostBlocked && l.o.Memory.Known("inner").Logins.Refusals == limits.Refusals
	})
	if st := h.Status(); st.Code != api.CodeAuth || !strings.Contains(st.Hint, "ProxyCommand") {
		t.Errorf("%+v", st)
	}
	eventually(t, func() bool {
		return strings.Count(gate.log.String(), "Connection closed by authenticating user") == limits.Refusals
	})
}

func TestOpenSSHFaultsAreFoundAndRepaired(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("needs /proc to find sshd's processes")
	}
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key))
	l.know(t, s)
	l.serve(t, PracticeLimits(), fmt.Sprintf("Host login\n Port %d\n", s.port))
	h := l.up(t, "login")
	for name, fault := range map[string]func(){
		"killed": func() {
			for _, pid := range s.sessions() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		},
		"frozen": func() {
			for _, pid := range s.sessions() {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
		},
		"restarted": func() {
			s.stop()
			s.start(s.cmd.Path)
		},
	} {
		before := time.Now()
		fault()
		again(t, h, before)
		if r, err := h.Run(t.Context(), "echo ok", nil); err != nil || string(r.Stdout) != "ok\n" {
			t.Errorf("%s: %q %v", name, r.Stdout, err)
		}
	}
}

func TestAnSSHDThatDoesNotAllowItRefusesToListen(t *testing.T) {
	l := newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key), "AllowTcpForwarding local")
	l.know(t, s)
	l.serve(t, PracticeLimits(), fmt.Sprintf("Host strict\n Port %d\n", s.port))
	h := l.up(t, "strict")
	if _, err := h.Listen(t.Context(), "tcp", "localhost:9000"); err == nil || errors.Is(err, api.ErrDown) {
		t.Errorf("refused: %v", err)
	}
}
