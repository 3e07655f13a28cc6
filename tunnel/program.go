package tunnel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/openssh"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// stderrBuffer is what a command prints on standard error. It can be searched while the command runs,
// and keeps the end.
type stderrBuffer struct {
	mu      sync.Mutex
	all     bytes.Buffer
	ended   bool
	changed *sync.Cond // at each write, and at the end
}

func newStderrBuffer() *stderrBuffer {
	s := &stderrBuffer{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Write implements io.Writer.
func (s *stderrBuffer) Write(p []byte) (int, error) {
	const most = 64 << 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.Len() > most {
		s.all.Next(s.all.Len() / 2)
	}
	s.all.Write(p)
	s.changed.Broadcast()
	return len(p), nil
}

func (s *stderrBuffer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
}

// Await waits for words, and reports whether they came before the end.
func (s *stderrBuffer) Await(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !bytes.Contains(s.all.Bytes(), []byte(words)) {
		if s.ended {
			return false
		}
		s.changed.Wait()
	}
	return true
}

// tail is the end of it.
func (s *stderrBuffer) tail() api.RemoteText {
	const most = 2000
	raw := s.String()
	return api.NewRemoteText(raw[max(0, len(raw)-most):])
}

// String is all that is kept.
func (s *stderrBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// Text is the last lines for people, without debug messages.
func (s *stderrBuffer) Text() api.RemoteText {
	var lines []string
	for line := range strings.Lines(s.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "debug") && !strings.HasPrefix(line, "OpenSSH_") {
			lines = append(lines, line)
		}
	}
	return api.NewRemoteText(strings.Join(lines[max(0, len(lines)-3):], "; "))
}

// proxyConn is the standard input and output of a ProxyCommand as a connection.
type proxyConn struct {
	programPipes
	io.Reader
	io.WriteCloser
	cmd     *exec.Cmd
	stderr  *stderrBuffer
	closing sync.Once
	end     context.CancelFunc
}

// startProxy runs a ProxyCommand. The process ends with the connection, not with ctx.
func startProxy(ctx context.Context, s *sshconfig.Settings, env api.Env) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	cmd := s.ProxyProgram(running, env)
	p := &proxyConn{cmd: cmd, stderr: newStderrBuffer(), end: end}
	cmd.Stderr = p.stderr
	var err error
	if p.WriteCloser, err = cmd.StdinPipe(); err == nil {
		p.Reader, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		return nil, failure.OfStart(err).Errorf(api.CodeConfig, err, "cannot run the ProxyCommand %q: %v", s.ProxyCommand, err)
	}
	return p, nil
}

// Read implements net.Conn. At the end of the output it returns what the command printed
// on standard error.
func (p *proxyConn) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if err != nil {
		_ = p.Close()
		if said := p.stderr.tail(); !said.IsZero() {
			return n, &proxyError{said, failure.ReadSSH(p.stderr.String())}
		}
		if errors.Is(err, io.EOF) {
			return n, io.EOF
		}
	}
	return n, err
}

// Close ends the process and waits for it.
func (p *proxyConn) Close() error {
	p.closing.Do(func() {
		_ = p.WriteCloser.Close()
		p.end()
		_ = p.cmd.Wait()
	})
	return nil
}

// proxyError is what a ProxyCommand printed before it ended.
type proxyError struct {
	said   api.RemoteText
	reason failure.SSHReason // if the command is an ssh
}

func (e *proxyError) Error() string { return "the ProxyCommand reports: " + hideLinks(e.said) }

// class is that of the ssh in the command: the host that it logs in to counts refused
// logins, too. What other commands print decides nothing.
func (e *proxyError) class() failure.Class { return cmp.Or(e.reason.Class, failure.Passing) }

// describe is the failure to reach a host by the command.
func (e *proxyError) describe(address string) *api.Error {
	described := e.class().Errorf(e.reason.Code, e, "%s cannot be reached: %v", address, e).WithHint("%s", e.reason.Hint)
	if e.class() == failure.Refused {
		described.Hint = cmp.Or(described.Hint, "run the ProxyCommand in a terminal: the host that it logs in to refuses your key, or asks for a password")
	}
	return described
}

// silentProxy describes a ProxyCommand that forwarded no banner in time; greeting is how
// reading from it ended.
func silentProxy(address string, limit time.Duration, greeting error) *api.Error {
	e := failure.Passing.Errorf(api.CodeUnreachable, cmp.Or(greeting, errSilent),
		"%s cannot be reached: its ProxyCommand passed on no SSH banner within %s", address, api.DurationText(limit)).WithHint("run the ProxyCommand in a terminal: it may be waiting for input")
	if proxy, ok := errors.AsType[*proxyError](greeting); ok {
		e.Err = proxy.class().Wrap(proxy)
		e.Message += "; its output: " + hideLinks(proxy.said)
	}
	return e
}

// programPipes is the part of net.Conn that a program's standard input and output do not
// have: addresses and deadlines.
type programPipes struct{}

func (programPipes) LocalAddr() net.Addr              { return programAddr }
func (programPipes) RemoteAddr() net.Addr             { return programAddr }
func (programPipes) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (programPipes) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (programPipes) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

var programAddr = &net.UnixAddr{Net: "proxy", Name: "ProxyCommand"}

// usesSSHProgram decides whether the ssh program logs in: because the config says so, or
// because the settings, the key files or an earlier login show that a native login
// cannot work. It tries no login to find out: that would be one more failed login.
func (t *attempt) usesSSHProgram(ctx context.Context) bool {
	if t.settings.Transport != "" {
		return t.settings.Transport == api.TransportOpenSSH
	}
	why := t.host.sshOnlyWhy
	if why == "" && t.settings.PKCS11Provider != "" {
		why = "PKCS11Provider is set"
	}
	if why == "" {
		if path := userkeys.OnToken(ctx, t.keyOptions()); path != "" {
			why = fmt.Sprintf("the key %s is on a security token and not in an ssh-agent", path)
		}
	}
	if why == "" {
		return false
	}
	if hint, err := findSSH(t.pool.o.Envs()[0]); err != nil {
		t.ask.Warn(why + ", which needs the ssh program: " + hint + ", or load the key into an ssh-agent")
		return false
	}
	t.log.Info("the ssh program logs in", "why", why)
	t.whySSH = why
	return true
}

// findSSH looks for an ssh program whose connection can be shared, and returns what to
// do if there is none.
func findSSH(env api.Env) (hint string, err error) {
	if !openssh.SharesConnections {
		return "run tunctl in WSL: the ssh program of Windows does not share its connections", errors.ErrUnsupported
	}
	_, err = sshconfig.FindSSH(env)
	return "install OpenSSH's client", err
}

// handOverToSSH is called when no native method is left and none has failed. It reports
// whether the ssh program will log in; an error says why it cannot.
func (t *attempt) handOverToSSH(allowed []string) (bool, error) {
	why := "the server accepts Kerberos logins, which only the ssh program supports"
	if !slices.Contains(allowed, "gssapi-with-mic") && !slices.Contains(allowed, "gssapi-keyex") {
		if !t.settings.HostbasedAuthentication || !slices.Contains(allowed, "hostbased") {
			return false, nil
		}
		why = "the server accepts host-based logins, which only the ssh program supports"
	}
	if t.settings.Transport == api.TransportNative {
		return false, t.ask.deny(why+"; remove transport = \"native\" for this host", nil)
	}
	if hint, err := findSSH(t.pool.o.Envs()[0]); err != nil {
		t.ask.denied = failure.Permanent.Errorf(api.CodeConfig, err, "%s needs the ssh program: %s", t.host.label(), why).
			WithHint("%s", hint)
		return false, t.ask.denied
	}
	t.whySSH = why
	t.host.sshOnlyWhy = why
	return true, nil
}

// logInBySSH has the ssh program log in.
func (t *attempt) logInBySSH(ctx context.Context) (c *conn, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.step("waiting for ssh to log in")
	t.ask.timeout = newTimeout(t.pool.o.Limits.HandshakeTimeout, cancel)
	defer t.ask.timeout.stop()
	said := newStderrBuffer()
	command, err := t.sshCommand(ctx, said)
	if err != nil {
		return nil, err
	}
	m, err := openssh.Prepare(ctx, command)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	asked, stopAsking, err := m.ServeAskpass(ctx, t.answerSSH(ctx))
	if err != nil {
		return nil, err
	}
	if err := m.Start(); err != nil {
		stopAsking()
		return nil, failure.OfStart(err).Errorf(api.CodeConfig, err, "cannot run ssh: %v", err)
	}
	t.loginBegins(time.Now())
	raw, err := m.Await(ctx)
	stopAsking()
	if err != nil {
		m.Close() // what it said is complete then
		return nil, t.sshFailed(ctx, said, err)
	}
	if c, err = t.useMaster(raw, m); err != nil {
		return nil, err
	}
	c.transport, c.transportWhy = api.TransportOpenSSH, t.whySSH
	c.auth, c.silent, c.via = api.TransportOpenSSH, !asked(), slices.Concat([]string{}, t.settings.ProxyJump)
	return c, nil
}

// sshCommand is how the program is run: no forwards, no shell, and the same keepalive as
// ours.
func (t *attempt) sshCommand(ctx context.Context, said *stderrBuffer) (openssh.Command, error) {
	s, env := &t.settings, t.pool.env(ctx)
	program, err := sshconfig.FindSSH(env)
	if err != nil {
		return openssh.Command{}, failure.Permanent.Errorf(api.CodeConfig, err, `transport = "openssh" needs the ssh program`).
			WithHint("install OpenSSH's client")
	}
	limits := t.pool.o.Limits.within(s)
	args := []string{
		"-o", "ControlPersist=no", "-o", "ClearAllForwardings=yes",
		"-o", "LogLevel=DEBUG1", // see failure.ReadSSH
		"-o", fmt.Sprintf("ServerAliveInterval=%d", max(int(limits.KeepaliveEvery/time.Second), 1)), "-o", fmt.Sprintf("ServerAliveCountMax=%d", limits.KeepaliveMax),
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
	c := openssh.Command{Program: program, Args: args, Destination: s.Destination, Env: env.Environ(), Stderr: sshProgress{said, &t.ask}}
	if t.ask.attended {
		c.Askpass = t.pool.o.Askpass
	}
	return c, nil
}

// answerSSH returns what answers the questions of one ssh program.
func (t *attempt) answerSSH(ctx context.Context) func(question string) (string, bool) {
	var questions openssh.Questions
	return func(question string) (string, bool) {
		p, touch := questions.Read(question, t.settings.NumberOfPasswordPrompts)
		if touch {
			t.step("logging in: touch your security key")
			t.ask.awaitPerson()
			return "", false
		}
		p.Links = linksIn(question)
		answer, err := t.ask.Prompt(ctx, p)
		if err != nil {
			return "", false
		}
		t.answered = true
		return answer.Text, true
	}
}

// useMaster makes a connection of our master's control socket.
func (t *attempt) useMaster(raw net.Conn, m *openssh.Master) (*conn, error) {
	t.wire = newWire(raw)
	t.wire.greeted.Store(true) // a control socket has no greeting
	sc, channels, requests, err := ssh.NewControlClientConn(t.wire)
	if err != nil {
		_ = t.wire.Close()
		return nil, failure.Passing.Errorf(api.CodeUnreachable, err, "the ssh program does not share its connection: %v", err)
	}
	c := newConn(t, ssh.NewClient(sc, channels, requests))
	c.master = m
	c.wg.Go(func() {
		<-c.done
		m.Close()
	})
	return c, nil
}

// sshFailed describes why ssh did not log in.
func (t *attempt) sshFailed(ctx context.Context, output *stderrBuffer, err error) error {
	expired, ofPerson := t.ask.timeout.expired()
	switch {
	case t.ask.denied != nil:
		return t.ask.denied
	case ctx.Err() != nil && !expired:
		return ctx.Err()
	}
	reason, said := failure.ReadSSH(output.String()), hideLinks(output.Text())
	broken := (expired || reason.Lost) && (reason.Mute || reason.Class == failure.Unknown)
	late := reason.Mute && !broken && t.ask.hungUpLate(t.loginAt)
	switch {
	case ofPerson:
		return t.ask.unconfirmed(err)
	case broken && t.answered:
		return needsUser(t.host.name, brokenLogin, err)
	case late && t.ask.attended:
		return t.ask.cutOff(err)
	case broken || late:
		reason.Class, reason.Code = failure.Passing, api.CodeUnreachable
	}
	if !reason.Login {
		t.loginAt = time.Time{}
	}
	if expired {
		return reason.Class.Errorf(api.CodeUnreachable, err, "ssh did not log in to %s within %s",
			t.host.label(), api.DurationText(t.pool.o.Limits.HandshakeTimeout))
	}
	if reason.Class == failure.Banned {
		return addressRefused(t.host.label(), err)
	}
	if reason.Ask && !t.ask.attended {
		return needsUser(t.host.name, "ssh could not log in without asking: "+said, err)
	}
	e := reason.Class.Errorf(reason.Code, err, "ssh could not log in to %s: %s", t.host.label(), said).WithHint("%s", reason.Hint)
	switch {
	case reason.Code == api.CodeHostKey:
		e.Hint = "`ssh " + t.settings.Destination + "` shows the host key and what is known of it"
	case reason.Code != api.CodeAuth || reason.Hint != "":
	case strings.Contains(said, "no active jobs"):
		e.Hint = onlyWithJob("")
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
	ask *asker
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
			p.ask.awaitPerson()
		case sshAwaitsHost.Match(line):
			p.ask.awaitHost()
		}
	}
	return p.stderrBuffer.Write(text)
}
