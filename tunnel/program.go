package tunnel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
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

// await waits for words, and reports whether they came before the end.
func (s *stderrBuffer) await(words string) bool {
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
	raw := s.raw()
	return api.NewRemoteText(raw[max(0, len(raw)-most):])
}

// raw is all that is kept.
func (s *stderrBuffer) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// text is the last lines, without debug messages.
func (s *stderrBuffer) text() api.RemoteText {
	var lines []string
	for line := range strings.Lines(s.raw()) {
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
			return n, &proxyError{said, failure.ReadSSH(p.stderr.raw())}
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
	described := e.class().Errorf(e.reason.Code, e, "%s cannot be reached: %v", address, e).
		WithHint("%s", e.reason.Hint)
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

func (programPipes) LocalAddr() net.Addr              { return programAddr{} }
func (programPipes) RemoteAddr() net.Addr             { return programAddr{} }
func (programPipes) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (programPipes) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (programPipes) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

type programAddr struct{}

func (programAddr) Network() string { return "proxy" }
func (programAddr) String() string  { return "ProxyCommand" }
