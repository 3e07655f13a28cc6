//go:build linux

// Package ground is what the benches stand on: a real sshd of their own, long ways to
// it, and the ssh_config that leads there.
package ground

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

// Server is an sshd, as the system's package has it, with keys of its own in a folder.
type Server struct {
	dir  string
	port int
	cmd  *exec.Cmd
}

// Serve starts one on a free port. The options are lines of its sshd_config.
func Serve(ctx context.Context, dir string, options ...string) (*Server, error) {
	const program = "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		return nil, errors.New("no /usr/sbin/sshd: install openssh-server")
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd wants it so
			return nil, err
		}
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, port: port}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.path(name)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	lines := append([]string{
		fmt.Sprintf("Port %d", port), "ListenAddress 0.0.0.0", "HostKey " + s.path("host"), "PidFile none",
		"UsePAM no", "StrictModes no", "PermitRootLogin yes", "AuthorizedKeysFile " + s.path("user.pub"),
		"PasswordAuthentication no", "KbdInteractiveAuthentication no",
	}, options...)
	if err := os.WriteFile(s.path("sshd_config"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(program, "-D", "-e", "-f", s.path("sshd_config")) //nolint:noctx // it ends with Close, after all that uses it
	said, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := awaitLine(said, "Server listening"); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// Address is where it listens.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Port is where it listens.
func (s *Server) Port() int { return s.port }

// Freeze stops it with all its connections, while the kernel still acknowledges.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw has it continue.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// signal sends a signal to the server and the processes of its connections, which are in
// sessions of their own.
func (s *Server) signal(sig syscall.Signal) {
	pids := []int{s.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pids[i]))
		for _, field := range strings.Fields(string(children)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig) // it may just have ended
	}
}

// Close ends it with all its connections.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// Way is a name of the server's, and the address and port that lead to it.
type Way struct {
	Name, Address string
	Port          int // 0: the server's own
}

// WriteConfig writes an ssh_config with these ways.
func (s *Server) WriteConfig(file string, ways ...Way) error {
	key, err := os.ReadFile(s.path("host.pub"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path("known_hosts"), append([]byte("* "), key...), 0o600); err != nil { // a folder of our own
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, w := range ways {
		if w.Port == 0 {
			w.Port = s.port
		}
		fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %d\n", w.Name, w.Address, w.Port)
	}
	fmt.Fprintf(&b, "Host *\n  User %s\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
		me.Username, s.path("user"), s.path("known_hosts"))
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// Group makes a command end with all that it started.
func Group(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
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
	return fmt.Errorf("the server never printed %q", words)
}

// FreePort is a port of loopback that nobody listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is over at once
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
