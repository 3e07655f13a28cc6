//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	hosts = 20                     // that are held idle
	rtt   = 100 * time.Millisecond // of the slow link
)

// ground is what a bench stands on: a real sshd, a slow way to it, and servers behind it.
type ground struct {
	dir    string
	config string // the ssh_config for both sides
	sshd   *exec.Cmd
	slow   *delayProxy // to the same sshd, with a round trip; nil where link is
	link   *slowLink   // the same by the kernel's own TCP; nil where one may not
	fickle *delayProxy // to the same sshd; it can lose its connections in silence
	far    *farSide
}

func newGround(ctx context.Context) (*ground, error) {
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	g := &ground{dir: dir, config: filepath.Join(dir, "ssh_config")}
	if err := g.start(ctx); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *ground) start(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	if err := g.startSSHD(ctx, port); err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if g.link, err = newSlowLink(ctx, rtt/2); err != nil {
		fmt.Fprintf(os.Stderr, "bench: the slow link is a proxy, which hides some of what one costs: %v\n", err)
		if g.slow, err = newDelayProxy(address, rtt/2); err != nil {
			return err
		}
	}
	if g.fickle, err = newDelayProxy(address, 0); err != nil {
		return err
	}
	if g.far, err = newFarSide(); err != nil {
		return err
	}
	return g.writeConfig(port)
}

// startSSHD runs a server of our own, as the package of the system has it.
func (g *ground) startSSHD(ctx context.Context, port int) error {
	program := "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		return errors.New("no /usr/sbin/sshd: install openssh-server")
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(g.dir, name)).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	lines := []string{
		fmt.Sprintf("Port %d", port), "ListenAddress 0.0.0.0", "HostKey " + filepath.Join(g.dir, "host"), "PidFile none",
		"UsePAM no", "StrictModes no", "PermitRootLogin yes", "AuthorizedKeysFile " + filepath.Join(g.dir, "user.pub"),
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "MaxStartups 200", "SetEnv HOME=" + g.dir,
	}
	file := filepath.Join(g.dir, "sshd_config")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	g.sshd = group(exec.CommandContext(ctx, program, "-D", "-e", "-f", file))
	said, err := g.sshd.StderrPipe()
	if err != nil {
		return err
	}
	if err := g.sshd.Start(); err != nil {
		return err
	}
	return awaitLine(said, "Server listening")
}

// group makes a command end with all that it started.
func group(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// awaitLine reads until a line has the words, and leaves the rest to be discarded.
func awaitLine(r io.Reader, words string) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if strings.Contains(lines.Text(), words) {
			go func() { _, _ = io.Copy(io.Discard, r) }() // ends with the process
			return nil
		}
	}
	return fmt.Errorf("it never said %q", words)
}

// writeConfig names the ways to the server: fast, slow, fickle, and as many hosts of
// their own address as are held idle.
func (g *ground) writeConfig(port int) error {
	key, err := os.ReadFile(filepath.Join(g.dir, "host.pub"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.dir, "known_hosts"), append([]byte("* "), key...), 0o600); err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	var b strings.Builder
	add := func(name, address string, port int) {
		fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %d\n", name, address, port)
	}
	add("fast", "127.0.0.1", port)
	if g.link != nil {
		add("slow", farEnd, port)
	} else {
		add("slow", "127.0.0.1", g.slow.port())
	}
	add("fickle", "127.0.0.1", g.fickle.port())
	for i := range hosts {
		add(idleHost(i), fmt.Sprintf("127.0.1.%d", i+1), port)
	}
	fmt.Fprintf(&b, "Host *\n  User %s\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
		me.Username, filepath.Join(g.dir, "user"), filepath.Join(g.dir, "known_hosts"))
	return os.WriteFile(g.config, []byte(b.String()), 0o600)
}

func idleHost(i int) string { return fmt.Sprintf("idle%d", i) }

func (g *ground) close() {
	if g.sshd != nil && g.sshd.Process != nil {
		_ = syscall.Kill(-g.sshd.Process.Pid, syscall.SIGKILL)
		_ = g.sshd.Wait()
	}
	for _, c := range []interface{ close() }{g.slow, g.link, g.fickle, g.far} {
		c.close()
	}
	_ = os.RemoveAll(g.dir)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is over at once
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// raiseFileLimit allows thousands of connections, here and in what is started.
func raiseFileLimit() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Cur = l.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}
