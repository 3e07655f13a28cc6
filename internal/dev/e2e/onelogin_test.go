package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/proxy"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
)

// guest is a laptop whose own ssh knows HOST.tun.
type guest struct {
	*laptop
	sshConfig string
	dir       string
}

func newGuest(t *testing.T, config string) *guest {
	t.Helper()
	return newGuestAt(t, real.Start(t), config)
}

// newGuestAt is one at another lab than usual.
func newGuestAt(t *testing.T, lab *real.Lab, config string) *guest {
	t.Helper()
	l := furnish(t, lab, config)
	t.Cleanup(l.close)
	g := &guest{laptop: l, dir: t.TempDir()}
	g.sshConfig = filepath.Join(g.dir, "ssh_config")
	if err := os.WriteFile(g.sshConfig, []byte("Include "+l.lab.SSHConfig()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.env = append(l.env, "TUNCTL_SSH_CONFIG="+g.sshConfig, "GIT_SSH_COMMAND=ssh -F "+g.sshConfig, "HOME="+g.dir)
	l.run("ssh-config", "install")
	return g
}

// exec runs a stock program and returns what it printed.
func (g *guest) exec(name string, args ...string) string {
	g.t.Helper()
	cmd := g.program(name, args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		g.t.Fatalf("%s %q: %v\n%s%s", name, args, err, out.String(), talk.String())
	}
	return out.String()
}

func (g *guest) program(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(g.t.Context(), name, args...)
	cmd.Env, cmd.Dir = g.env, g.dir
	return cmd
}

func (g *guest) ssh(args ...string) string {
	g.t.Helper()
	return g.exec("ssh", append([]string{"-F", g.sshConfig}, args...)...)
}

// accepted is how many logins with a code a server of the lab has let in.
func accepted(t *testing.T, lab *real.Lab, alias string) int {
	t.Helper()
	out, err := lab.Exec("login1", "sh", "-c", "grep -c '^Accepted keyboard-interactive' /var/log/"+alias+".log || true")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// loginWithCode logs in as the user with a device for one-time codes does.
func (l *laptop) loginWithCode(host string) {
	l.t.Helper()
	l.run("agent", "start")
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	first, up := true, false
	_ = l.client.Watch(ctx, api.AnswersTerminal, "", func(e api.Event) { // it ends by our cancel
		switch {
		case first:
			first = false
			if _, err := l.client.Login(ctx, host); err != nil {
				l.t.Error(err)
				cancel()
			}
		case e.Prompt != nil && e.Type == api.EventPrompt:
			if err := l.client.Answer(ctx, e.Prompt.ID, api.Answer{Text: l.lab.Code()}); err != nil {
				l.t.Error(err)
			}
		case e.Host != nil && e.Host.Alias == host && e.Host.State == api.HostUp:
			up = true
			cancel()
		}
	})
	if !up {
		l.t.Fatalf("no login to %s", host)
	}
}

func TestOneLoginWithACodeServesEveryTool(t *testing.T) {
	real.Need(t, "ssh")
	t.Parallel()
	g := newGuest(t, "[host.lab-otp]\n")
	before := accepted(t, g.lab, "lab-otp")
	g.loginWithCode("lab-otp")
	const host = "lab-otp.tun"

	if out := g.ssh(host, "echo", "$((6*7))"); out != "42\n" {
		t.Errorf("ssh: %q", out)
	}
	if out := g.ssh("-tt", host, "tty; stty size; exit 0"); !strings.Contains(out, "/dev/pts/") {
		t.Errorf("a terminal: %q", out)
	}
	err := g.program("ssh", "-F", g.sshConfig, host, "kill -TERM $$").Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 255 {
		t.Errorf("ended by a signal: %v", err) // as ssh itself says it
	}
	g.copies(host, "lab-otp")
	g.forwards(host)
	g.python(host)
	if out, _ := g.run("ssh", "lab-otp", "echo ours"); out != "ours\n" {
		t.Errorf("tunctl ssh: %q", out)
	}
	if n := accepted(t, g.lab, "lab-otp") - before; n != 1 {
		t.Errorf("the host counted %d logins", n)
	}
}

// copies checks that every tool for files, ours by its own name for the host, and git carry
// every byte.
func (g *guest) copies(host, ours string) {
	t := g.t
	t.Helper()
	data := make([]byte, 5<<20)
	_, _ = rand.Read(data)
	if err := os.WriteFile(filepath.Join(g.dir, "data"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	summed := func(what, file string) {
		t.Helper()
		if out := g.ssh(host, "sha256sum", file); !strings.HasPrefix(out, sum) {
			t.Errorf("%s: %s", what, out)
		}
	}
	g.exec("scp", "-F", g.sshConfig, "data", host+":by-scp")
	summed("scp", "by-scp")
	g.exec("scp", "-O", "-F", g.sshConfig, "data", host+":by-old-scp")
	summed("scp -O", "by-old-scp")
	if err := os.WriteFile(filepath.Join(g.dir, "batch"), []byte("put data by-sftp\nget by-sftp back\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.exec("sftp", "-F", g.sshConfig, "-b", "batch", host)
	summed("sftp", "by-sftp")
	g.exec("cmp", "data", "back")
	g.exec("rsync", "-a", "-e", "ssh -F "+g.sshConfig, "data", host+":by-rsync")
	summed("rsync", "by-rsync")
	g.run("cp", filepath.Join(g.dir, "data"), ours+":by-cp")
	summed("tunctl cp", "by-cp")

	g.ssh(host, "rm -rf repo && git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first")
	g.exec("git", "clone", "-q", host+":repo", "clone")
	if out := g.exec("git", "-C", "clone", "log", "--format=%s"); out != "first\n" {
		t.Errorf("git: %q", out)
	}
}

// forwards checks ssh -L, -D and -W to a server that only the host reaches.
func (g *guest) forwards(host string) {
	t := g.t
	t.Helper()
	target := net.JoinHostPort(g.lab.NodeAddr("login1"), "22")
	local, dynamic := freeAddress(t), freeAddress(t)
	cmd := g.program("ssh", "-F", g.sshConfig, "-o", "ExitOnForwardFailure=yes", "-L", local+":"+target, "-D", dynamic, host, "echo ready; cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", local)
	greets(t, "-L", conn, err)
	socks, err := proxy.SOCKS5("tcp", dynamic, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err = socks.Dial("tcp", target)
	greets(t, "-D", conn, err)
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// python runs what the page on one login has for Python's SSH libraries, with another host, and
// what reads the file that Include names.
func (g *guest) python(host string) {
	t := g.t
	t.Helper()
	page, err := os.ReadFile("../../../docs/one-login.md")
	if err != nil {
		t.Fatal(err)
	}
	included := filepath.Join(g.home, "state", "gateway", "ssh_config")
	programs := []string{fmt.Sprintf(`
from fabric import Connection, Config
Connection("narval.tun", config=Config(runtime_ssh_path=%q), connect_kwargs={"password": ""}).run("hostname")`, included)}
	for _, m := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		programs = append(programs, m[1])
	}
	if len(programs) != 4 {
		t.Errorf("the page has %d programs", len(programs)-1)
	}
	for _, dir := range []string{".ssh", "bin"} {
		if err := os.MkdirAll(filepath.Join(g.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{".ssh/config": g.sshConfig, "bin/tunctl": testprogram.Path()} {
		if err := os.Symlink(to, filepath.Join(g.dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	g.env = append(g.env, "PATH="+filepath.Join(g.dir, "bin")+":"+os.Getenv("PATH"))
	want := strings.TrimSpace(g.ssh(host, "hostname"))
	for _, text := range programs {
		if got := g.exec("/usr/bin/python3", "-c", strings.ReplaceAll(text, "narval.tun", host)); strings.TrimSpace(got) != want {
			t.Errorf("%s\nprints %q, want %q", text, got, want)
		}
	}
}

// greets checks that an SSH server answers.
func greets(t *testing.T, what string, conn net.Conn, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	hello := make([]byte, len("SSH-2.0"))
	if _, err := io.ReadFull(conn, hello); err != nil || string(hello) != "SSH-2.0" {
		t.Errorf("%s: %q %v", what, hello, err)
	}
}

func TestWhatASiteForbidsStaysForbiddenAndItsLimitIsWaitedFor(t *testing.T) {
	real.Need(t, "ssh")
	t.Parallel()
	g := newGuest(t, "[host.lab-tight]\n")
	g.run("login", "lab-tight")
	out, err := g.program("ssh", "-F", g.sshConfig, "-W", "localhost:22", "lab-tight.tun").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "administratively prohibited") {
		t.Errorf("forwarding: %v %s", err, out)
	}
	// MaxSessions is 2: the third waits until one of the others is over.
	first, second := g.hold("lab-tight.tun"), g.hold("lab-tight.tun")
	third := g.program("ssh", "-F", g.sshConfig, "lab-tight.tun", "echo third")
	told, err := third.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Start(); err != nil {
		t.Fatal(err)
	}
	tooLong := time.AfterFunc(patience, func() { _ = third.Process.Kill() })
	defer tooLong.Stop()
	lines := bufio.NewScanner(told)
	waits := false
	for !waits && lines.Scan() {
		waits = strings.Contains(lines.Text(), "waiting until another shell or copy ends")
	}
	if !waits {
		t.Error("the third did not wait, or was not told")
	}
	first()
	second()
	if err := third.Wait(); err != nil {
		t.Errorf("the third: %v", err)
	}
}

// hold takes one of a host's sessions until release is called.
func (g *guest) hold(host string) (release func()) {
	g.t.Helper()
	cmd := g.program("ssh", "-F", g.sshConfig, host, "echo held; cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		g.t.Fatalf("no session: %q %v", line, err)
	}
	return func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			g.t.Error(err)
		}
	}
}

func TestALargeCopySurvivesSilentCutsOfTheLink(t *testing.T) {
	real.Need(t, "ssh")
	t.Parallel()
	g := newGuest(t, "[host.lab-login]\n")
	g.run("login", "lab-login")
	size, cuts := int64(96<<20), int64(2)
	if os.Getenv("TUNCTL_LONG") != "" { // two minutes
		size, cuts = 1<<30, 5
	}
	here := filepath.Join(g.dir, "data")
	sum := randomFile(t, here, size)
	g.lab.Delay(20*time.Millisecond, 0)
	cp := g.command("cp", "-q", here, "lab-login:large")
	var talk bytes.Buffer
	cp.Stderr = &talk
	if err := cp.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range cuts {
		g.arrived((i + 1) * size / (cuts + 1))
		g.lab.Cut("silent")
		g.hostIs("lab-login", false)
		if out, err := g.lab.Exec("login1", "sh", "-c", "ls /home/*/.tunctl-*.part"); err != nil {
			t.Errorf("the copy was over before cut %d: %s, %v", i+1, out, err)
		}
		g.lab.Restore("silent")
		g.hostIs("lab-login", true)
	}
	if err := cp.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, talk.String())
	}
	g.lab.Delay(0, 0)
	t.Logf("%d MB, %d losses of the link noticed", size>>20, strings.Count(talk.String(), "lost the connection"))
	if out, _ := g.run("ssh", "lab-login", "sha256sum large; rm large; ls -A | grep part || true"); !strings.HasPrefix(out, sum) || strings.Contains(out, ".part") {
		t.Errorf("%s, want %s", out, sum)
	}
}

// pause lets a fault last. It is the fault's own length, not a wait for something.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// arrived waits until so much of a copy, or all of it, is on the host.
func (g *guest) arrived(size int64) {
	g.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; pause(g.t, 50*time.Millisecond) {
		out, err := g.lab.Exec("login1", "sh", "-c", "stat -c %s /home/*/.tunctl-*.part /home/*/large 2>/dev/null | sort -n | tail -n 1")
		if err != nil {
			g.t.Fatal(err)
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64); err == nil && n >= size {
			return
		}
	}
	g.t.Fatalf("not even %d bytes arrived", size)
}

// hostIs waits until a host is connected, or is not.
func (l *laptop) hostIs(alias string, up bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	seen := false
	_ = l.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		hosts := []api.Host{}
		if e.Status != nil {
			hosts = e.Status.Hosts
		}
		if e.Host != nil {
			hosts = append(hosts, *e.Host)
		}
		for _, h := range hosts {
			if h.Alias == alias && (h.State == api.HostUp) == up {
				seen = true
				cancel()
			}
		}
	})
	if !seen {
		l.t.Fatalf("%s never became up=%v", alias, up)
	}
}

// randomFile makes a file of random bytes and returns its sum.
func randomFile(t *testing.T, name string, size int64) string {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, h), rand.Reader, size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
