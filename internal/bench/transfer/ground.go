//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
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

// ground is a real sshd, slow ways to it, and an agent that is logged in over all.
type ground struct {
	dir, config, tunctl string
	sshd                *exec.Cmd
	proxies             []*delayProxy
}

func newGround(ctx context.Context, program string) (*ground, error) {
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	g := &ground{dir: dir, config: filepath.Join(dir, "ssh_config")}
	if g.tunctl, err = filepath.Abs(program); err == nil {
		err = g.start(ctx)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *ground) start(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	if err := g.startSSHD(ctx, port); err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	ports := map[string]int{"fast": port}
	for name, rtt := range map[string]time.Duration{"slow": 100 * time.Millisecond, "mid": 50 * time.Millisecond} {
		p, err := newDelayProxy(address, rtt/2)
		if err != nil {
			return err
		}
		g.proxies = append(g.proxies, p)
		ports[name] = p.port()
	}
	if err := g.writeConfig(ports); err != nil {
		return err
	}
	for _, args := range [][]string{{"ssh-config", "install"}, {"login", "fast"}, {"login", "slow"}, {"login", "mid"}} {
		if out, err := g.run(ctx, g.tunctl, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("tunctl %s: %w\n%s", args, err, out)
		}
	}
	return nil
}

// run is a command in the bench's own home.
func (g *ground) run(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "TUNCTL_HOME="+filepath.Join(g.dir, "home"), "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG="+g.config)
	return cmd
}

func (g *ground) startSSHD(ctx context.Context, port int) error {
	const program = "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		return errors.New("no /usr/sbin/sshd: install openssh-server")
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd wants it so
			return err
		}
	}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(g.dir, name)).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	lines := []string{
		fmt.Sprintf("Port %d", port), "ListenAddress 127.0.0.1", "HostKey " + filepath.Join(g.dir, "host"), "PidFile none",
		"UsePAM no", "StrictModes no", "PermitRootLogin yes", "AuthorizedKeysFile " + filepath.Join(g.dir, "user.pub"),
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "Subsystem sftp internal-sftp",
	}
	file := filepath.Join(g.dir, "sshd_config")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	g.sshd = exec.Command(program, "-D", "-f", file) //nolint:noctx // it ends with close, after the agent
	g.sshd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return g.sshd.Start()
}

func (g *ground) writeConfig(ports map[string]int) error {
	key, err := os.ReadFile(filepath.Join(g.dir, "host.pub"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.dir, "known_hosts"), append([]byte("* "), key...), 0o600); err != nil { // a folder of our own
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	var b strings.Builder
	for name, port := range ports {
		fmt.Fprintf(&b, "Host %s\n  HostName 127.0.0.1\n  Port %d\n", name, port)
	}
	fmt.Fprintf(&b, "Host *\n  User %s\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
		me.Username, filepath.Join(g.dir, "user"), filepath.Join(g.dir, "known_hosts"))
	return os.WriteFile(g.config, []byte(b.String()), 0o600)
}

func (g *ground) close() {
	if g.tunctl != "" {
		_ = g.run(context.Background(), g.tunctl, "agent", "stop").Run() // where there is none, nothing is to be done
	}
	if g.sshd != nil && g.sshd.Process != nil {
		_ = syscall.Kill(-g.sshd.Process.Pid, syscall.SIGKILL)
		_ = g.sshd.Wait()
	}
	for _, p := range g.proxies {
		p.close()
	}
	_ = os.RemoveAll(g.dir)
}
