package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// serveSession serves one session channel: the requests that prepare it, then one
// command or subsystem (RFC 4254, 6.5).
func (c *Cluster) serveSession(newChannel ssh.NewChannel, node string) {
	channel, requests, err := newChannel.Accept()
	if err != nil {
		return
	}
	s := &session{c: c, channel: channel, node: node}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	defer s.cancel()
	var wg sync.WaitGroup
	for req := range requests {
		ok := s.handle(req)
		if req.WantReply {
			_ = req.Reply(ok, nil)
		}
		if s.run != nil {
			run := s.run
			s.run = nil
			wg.Go(run)
		}
	}
	wg.Wait()
	_ = channel.Close()
}

type session struct {
	c       *Cluster
	channel ssh.Channel
	node    string
	ctx     context.Context
	cancel  context.CancelFunc
	env     []string
	started bool
	run     func() // set by the request that starts the session's one program
}

func (s *session) handle(req *ssh.Request) bool {
	switch req.Type {
	case "env":
		var kv struct{ Name, Value string }
		if ssh.Unmarshal(req.Payload, &kv) != nil {
			return false
		}
		if kv.Name != "LANG" && !strings.HasPrefix(kv.Name, "LC_") {
			return false // as sshd is set up almost everywhere
		}
		s.env = append(s.env, kv.Name+"="+kv.Value)
		return true
	case "exec":
		var msg struct{ Command string }
		return ssh.Unmarshal(req.Payload, &msg) == nil && s.start(func() { s.exec("-c", msg.Command) })
	case "shell":
		return s.start(func() {
			fmt.Fprintln(s.channel.Stderr(), "This is tunctl's practice cluster. It has no terminal and shows no prompt: type a command and Enter; exit ends it.")
			s.exec("-l", "-s")
		})
	case "subsystem":
		var msg struct{ Name string }
		return ssh.Unmarshal(req.Payload, &msg) == nil && msg.Name == "sftp" && s.start(s.sftp)
	case "signal":
		s.cancel()
		return true
	}
	return false // a terminal, X11, agent forwarding: not here
}

func (s *session) start(run func()) bool {
	if s.started {
		return false
	}
	s.started, s.run = true, run
	return true
}

// exec runs a command in the student's shell.
func (s *session) exec(args ...string) {
	defer func() { _ = s.channel.Close() }()
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.c.binDir(), filepath.Base(s.c.shell)), args...)
	cmd.Env = slices.Concat(s.c.loginEnv(), environment{"HOSTNAME=" + s.node}, s.env)
	cmd.Dir = s.c.Home()
	cmd.Stdout, cmd.Stderr = s.channel, s.channel.Stderr()
	s.exit(s.c.runCommand(cmd, s.channel))
}

func (s *session) exit(status int) {
	_ = s.channel.CloseWrite()
	_, _ = s.channel.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(status)))
}

// lockedChannel is a channel whose writes and CloseWrite may run at the same time.
type lockedChannel struct {
	ssh.Channel
	mu sync.Mutex
}

func (c *lockedChannel) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Channel.Write(p)
}

func (c *lockedChannel) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Channel.CloseWrite()
}

func (s *session) sftp() {
	defer func() { _ = s.channel.Close() }()
	s.channel = &lockedChannel{Channel: s.channel} // Serve returns before the last response is sent
	server, err := sftp.NewServer(&linkMaker{ReadWriteCloser: s.channel, home: s.c.Home()}, sftp.WithServerWorkingDirectory(s.c.Home()))
	if err != nil {
		s.exit(1)
		return
	}
	_ = server.Serve()
	s.exit(0)
}

// runCommand runs a session's command and returns its exit status. Like sshd, it does not
// end a command whose connection is lost, but closes its pipes.
func (c *Cluster) runCommand(cmd *exec.Cmd, input io.ReadCloser) int {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = time.Second // after Cancel
	if err := cmd.Start(); err != nil {
		c.log.Warn("practice command did not start", "err", err)
		return 127
	}
	// Not cmd.Stdin: Wait would wait for input that nobody sends.
	c.wg.Go(func() {
		_, _ = io.Copy(stdin, input)
		_ = stdin.Close()
	})
	err = cmd.Wait()
	c.wg.Go(func() { c.reap(cmd) })
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0 // only the link failed
	}
	if signal := exitSignal(exit.ProcessState); signal != 0 {
		return 128 + signal
	}
	return exit.ExitCode()
}

// reap ends what a command left in the background when the cluster ends.
func (c *Cluster) reap(cmd *exec.Cmd) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for groupAlive(cmd.Process) {
		select {
		case <-ticker.C:
		case <-c.ctx.Done():
			_ = killGroup(cmd.Process)
			return
		}
	}
}
