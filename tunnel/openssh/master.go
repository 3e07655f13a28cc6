// Package openssh has the ssh program log in and hold the connection, for what a native
// login cannot do: a private ControlMaster that is used through its control socket. It
// knows how ssh is run, asked and told to listen; what its messages mean is in package
// failure, and what to do about them in package tunnel.
package openssh

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/peer"
)

// masterPoll is how often we check whether ssh has logged in. Its control socket appears
// then, and there is no other sign.
const masterPoll = 50 * time.Millisecond

// Command is how ssh is run.
type Command struct {
	Program     string
	Args        []string // besides those that make it a master
	Destination string
	Env         []string
	Stderr      io.Writer
	Askpass     string // the program that calls Askpass; "": ssh may ask nothing
}

// Master is an ssh program that logs in for us and holds the connection, which we use
// through its control socket. Nobody else knows the socket, and the program ends with
// the connection.
type Master struct {
	dir     string
	cmd     *exec.Cmd
	running context.Context //nolint:containedctx // ends with the program
	end     context.CancelFunc
	exited  chan struct{}
	once    sync.Once
	sockets atomic.Int32 // of listeners so far
}

// Prepare makes the folder of a master, which runs once it is started. The caller closes
// it.
func Prepare(ctx context.Context, c Command) (*Master, error) {
	dir, err := os.MkdirTemp("", "tunctl-ssh-")
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	m := &Master{dir: dir, running: running, end: end, exited: make(chan struct{})}
	args := append([]string{"ssh", "-M", "-N", "-T", "-o", "ControlPath=" + m.control()}, c.Args...)
	m.cmd = exec.CommandContext(running, c.Program)
	m.cmd.WaitDelay = time.Second
	m.cmd.Env = c.Env
	m.cmd.Stderr = c.Stderr
	if c.Askpass != "" {
		m.cmd.Env = append(m.cmd.Env, "SSH_ASKPASS="+c.Askpass, "SSH_ASKPASS_REQUIRE=force", AskpassSocket+"="+m.AskSocket())
	} else {
		args = append(args, "-o", "BatchMode=yes")
	}
	args = append(args, "--", c.Destination)
	m.cmd.Args = args
	return m, nil
}

func (m *Master) control() string { return filepath.Join(m.dir, "control") }

// AskSocket is where Askpass reaches ServeAskpass.
func (m *Master) AskSocket() string { return filepath.Join(m.dir, "ask") }

// Start runs the program. It ends with us even if we are killed, where the system
// supports that.
func (m *Master) Start() error {
	killWithParent(m.cmd)
	started := make(chan error)
	go func() {
		// Linux sends the signal when the starting thread ends, not the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			_ = m.cmd.Wait() // its messages say more than its status
			close(m.exited)
		}
	}()
	return <-started
}

// Await returns a connection to the control socket once it exists.
func (m *Master) Await(ctx context.Context) (net.Conn, error) {
	for {
		if c, err := dialControl(ctx, m.control()); err == nil {
			return c, nil
		}
		select {
		case <-time.After(masterPoll):
		case <-m.exited:
			return nil, errors.New("ssh ended")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the program and removes its folder.
func (m *Master) Close() {
	m.once.Do(func() {
		m.end()
		if m.cmd.Process != nil {
			<-m.exited
		}
		_ = os.RemoveAll(m.dir)
	})
}

var errForeignMaster = errors.New("another user's program listens at the control socket")

// dialControl connects to a master's control socket, if the master is this user's.
func dialControl(ctx context.Context, path string) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if !peer.SameUser(raw) {
		_ = raw.Close()
		return nil, errForeignMaster
	}
	return raw, nil
}
