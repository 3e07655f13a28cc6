package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/peer"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// masterPoll is how often we check whether ssh has logged in. Its control socket appears
// then, and there is no other sign.
const masterPoll = 50 * time.Millisecond

// master is an ssh program that logs in for us and holds the connection, which we use
// through its control socket. Nobody else knows the socket, and the program ends with
// the connection.
type master struct {
	dir     string
	cmd     *exec.Cmd
	stderr  *stderrBuffer
	running context.Context //nolint:containedctx // ends with the program
	end     context.CancelFunc
	exited  chan struct{}
	once    sync.Once
	sockets atomic.Int32 // of listeners so far
}

// logInBySSH has the ssh program log in.
func (t *attempt) logInBySSH(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.host.step("waiting for ssh to log in")
	t.timeout = newTimeout(t.pool.o.Limits.HandshakeTimeout, cancel)
	defer t.timeout.stop()
	m, err := t.startMaster(ctx)
	if err != nil {
		return nil, err
	}
	asked, stopAsking, err := t.serveAskpass(ctx, m.askSocket())
	if err != nil {
		m.close()
		return nil, err
	}
	if err := m.start(); err != nil {
		stopAsking()
		m.close()
		return nil, failure.OfStart(err).Errorf(api.CodeConfig, err, "cannot run ssh: %v", err)
	}
	t.loginAt = time.Now()
	t.host.loginBegins(t.loginAt)
	raw, err := m.await(ctx)
	stopAsking()
	if err != nil {
		m.close()
		return nil, t.masterFailed(ctx, m, err)
	}
	c, err := t.attachOwnMaster(raw, m)
	if err != nil {
		m.close()
		return nil, err
	}
	c.transport, c.transportWhy = api.TransportOpenSSH, t.whySSH
	c.auth, c.silent, c.via = api.TransportOpenSSH, !asked(), slices.Concat([]string{}, t.settings.ProxyJump)
	return c, nil
}

// startMaster prepares the program: no forwards, no shell, and the same keepalive as
// ours.
func (t *attempt) startMaster(ctx context.Context) (*master, error) {
	s, env := &t.settings, t.pool.env(ctx)
	program, err := sshconfig.FindSSH(env)
	if err != nil {
		return nil, failure.Permanent.Errorf(api.CodeConfig, err, `transport = "openssh" needs the ssh program`).
			WithHint("install OpenSSH's client")
	}
	dir, err := os.MkdirTemp("", "tunctl-ssh-")
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	m := &master{dir: dir, stderr: newStderrBuffer(), running: running, end: end, exited: make(chan struct{})}
	interval, misses := t.pool.o.Limits.KeepaliveEvery, t.pool.o.Limits.KeepaliveMax
	if s.ServerAliveInterval > 0 {
		interval, misses = s.ServerAliveInterval, max(s.ServerAliveCountMax, 1)
	}
	args := []string{
		"-M", "-N", "-T", "-o", "ControlPath=" + m.control(), "-o", "ControlPersist=no", "-o", "ClearAllForwardings=yes",
		"-o", "LogLevel=DEBUG1", // see failure.ReadSSH
		"-o", fmt.Sprintf("ServerAliveInterval=%d", max(int(interval/time.Second), 1)), "-o", fmt.Sprintf("ServerAliveCountMax=%d", misses),
	}
	if s.SSHConfig != "" {
		args = append(args, "-F", s.SSHConfig)
	}
	if t.host.sshOnlyWhy != "" { // the server accepts little else, and ssh's default is no
		args = append(args, "-o", "GSSAPIAuthentication=yes")
	}
	if s.Port != 0 { // which a site may have set
		args = append(args, "-p", strconv.Itoa(s.Port))
	}
	if i := strings.LastIndexByte(t.host.name, ','); i >= 0 { // the name's own hops
		args = append(args, "-J", t.host.name[:i])
	} else if len(s.ProxyJump) > 0 {
		args = append(args, "-J", strings.Join(s.ProxyJump, ","))
	}
	m.cmd = exec.CommandContext(running, program)
	m.cmd.WaitDelay = time.Second
	m.cmd.Env = env.Environ()
	m.cmd.Stderr = sshProgress{m.stderr, t}
	if t.attended && t.pool.o.Askpass != "" {
		m.cmd.Env = append(m.cmd.Env, "SSH_ASKPASS="+t.pool.o.Askpass, "SSH_ASKPASS_REQUIRE=force", AskpassSocket+"="+m.askSocket())
	} else {
		args = append(args, "-o", "BatchMode=yes")
	}
	m.cmd.Args = append([]string{"ssh"}, append(args, "--", s.Destination)...)
	return m, nil
}

func (m *master) control() string   { return filepath.Join(m.dir, "control") }
func (m *master) askSocket() string { return filepath.Join(m.dir, "ask") }

// start runs the program. It ends with us even if we are killed, where the system
// supports that.
func (m *master) start() error {
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

// await returns a connection to the control socket once it exists.
func (m *master) await(ctx context.Context) (net.Conn, error) {
	tick := time.NewTicker(masterPoll)
	defer tick.Stop()
	for {
		if c, err := dialControl(ctx, m.control()); err == nil {
			return c, nil
		}
		select {
		case <-tick.C:
		case <-m.exited:
			return nil, errors.New("ssh ended")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// close ends the program and removes its folder.
func (m *master) close() {
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

// attachOwnMaster makes a connection of our master's control socket.
func (t *attempt) attachOwnMaster(raw net.Conn, m *master) (*conn, error) {
	t.wire = newWire(raw)
	t.wire.greeted = true // a control socket has no greeting
	sc, channels, requests, err := ssh.NewControlClientConn(t.wire)
	if err != nil {
		_ = t.wire.Close()
		return nil, failure.Passing.Errorf(api.CodeUnreachable, err, "the ssh program does not share its connection: %v", err)
	}
	c := newConn(t, ssh.NewClient(sc, channels, requests))
	c.master = m
	c.wg.Go(func() {
		<-c.done
		m.close()
	})
	return c, nil
}

// masterFailed describes why ssh did not log in.
func (t *attempt) masterFailed(ctx context.Context, m *master, err error) error {
	expired := t.timeout.expired()
	switch {
	case t.denied != nil:
		return t.denied
	case ctx.Err() != nil && !expired:
		return ctx.Err()
	}
	reason, said := failure.ReadSSH(m.stderr.raw()), hideLinks(m.stderr.text())
	switch {
	case t.timeout.expiredForPerson():
		return t.unconfirmed(err)
	case !reason.Mute || expired || !t.hungUpLate(t.loginAt):
	case t.attended:
		return t.cutOff(err)
	default:
		reason.Class, reason.Code = failure.Passing, api.CodeUnreachable
	}
	if !reason.Login {
		t.loginAt = time.Time{}
	}
	if expired {
		return reason.Class.Errorf(api.CodeUnreachable, err, "ssh did not log in to %s within %s",
			t.host.label(), api.DurationText(t.pool.o.Limits.HandshakeTimeout))
	}
	if reason.Ask && !t.attended {
		return t.host.needsPerson("ssh could not log in without asking: "+said, err)
	}
	e := reason.Class.Errorf(reason.Code, err, "ssh could not log in to %s: %s", t.host.label(), said).
		WithHint("%s", reason.Hint)
	switch {
	case reason.Code == api.CodeHostKey:
		e.Hint = "`ssh " + t.settings.Destination + "` shows the host key and what is known of it"
	case reason.Code != api.CodeAuth || reason.Hint != "":
	case t.host.behind != "" || strings.Contains(said, "no active jobs"):
		e.Hint = onlyWithJob(t.host.behind)
	case t.answered:
		e.Hint = fmt.Sprintf("check the user name %q and what you entered", t.settings.User)
	default:
		e.Hint = fmt.Sprintf("check the user name %q, and that your public key is registered with the site", t.settings.User)
	}
	return e
}

// sshProgress reads in the messages of a running ssh program whom its login waits for.
type sshProgress struct {
	*stderrBuffer
	try *attempt
}

var (
	sshAwaitsPerson = regexp.MustCompile(`(?m)^debug1: (Next authentication method: keyboard-interactive|Server accepts key: )`)
	sshAwaitsHost   = regexp.MustCompile(`(?m)^(debug1: Authentications that can continue: |Authenticated to )`)
)

// Write implements io.Writer. ssh writes whole lines.
func (p sshProgress) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		switch {
		case sshAwaitsPerson.Match(line):
			p.try.awaitPerson()
		case sshAwaitsHost.Match(line):
			p.try.awaitHost()
		}
	}
	return p.stderrBuffer.Write(text)
}
