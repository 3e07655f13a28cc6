package tunnel

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

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
