package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/posixsh"
)

// plainSteps are for a node without Python: each shell, command and connection is a step
// of its own, and takes one of the host's sessions. There are few at a time: a step costs
// the scheduler a request and an accounting record.
type plainSteps struct {
	steps *jobSteps
	slots chan struct{}
}

func newPlainSteps(j *jobSteps) *plainSteps {
	return &plainSteps{steps: j, slots: make(chan struct{}, j.limits().PlainSteps)}
}

// acquire waits for one of the few steps.
func (p *plainSteps) acquire(ctx context.Context) (release func(), err error) {
	if err := p.steps.check(); err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-p.slots }), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s has no python3, so only %d shells, commands and connections are possible at a time: %w",
			p.steps.node, cap(p.slots), ctx.Err())
	}
}

// openChannel opens a channel inside the job.
func (p *plainSteps) openChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	switch kind {
	case "session":
		return p.session(ctx)
	case "direct-tcpip":
		return p.forward(ctx, payload)
	}
	return nil, nil, &ssh.OpenChannelError{Reason: ssh.Prohibited, Message: "sockets on " + p.steps.node + " cannot be reached: it has no python3"}
}

// session opens a session on the host, in which srun will run what is asked for.
func (p *plainSteps) session(ctx context.Context) (ssh.Channel, <-chan *ssh.Request, error) {
	release, err := p.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	ch, requests, err := p.steps.host.OpenChannel(ctx, "session", nil)
	if err != nil {
		release()
		return nil, nil, err
	}
	return &plainSession{sharedSession{ch, release}, p.steps, false}, requests, nil
}

// plainSession is a session on the host whose program is started in the job by srun. Its
// terminal is the host's; srun tells the program its size.
type plainSession struct {
	sharedSession
	steps    *jobSteps
	terminal bool
}

// SendRequest changes a request for a program.
func (s *plainSession) SendRequest(name string, wantReply bool, payload []byte) (bool, error) {
	var program string
	switch name {
	case "pty-req":
		s.terminal = true
		return s.Channel.SendRequest(name, wantReply, payload)
	case "shell":
		program = `exec "${SHELL:-/bin/sh}" -l`
	case "exec":
		var exec struct{ Command string }
		if err := ssh.Unmarshal(payload, &exec); err != nil {
			return false, err
		}
		program = `exec "${SHELL:-/bin/sh}" -c ` + posixsh.Quote(exec.Command)
	case "subsystem":
		if !isSFTP(payload) {
			return false, nil
		}
		program = sftpCommand
	default:
		return s.Channel.SendRequest(name, wantReply, payload)
	}
	return s.start(program, s.terminal && name != "subsystem")
}

// start runs a program in a step. With a terminal the line cannot be sent as input, which
// would be shown.
func (s *plainSession) start(program string, terminal bool) (bool, error) {
	if terminal {
		line := "exec " + s.steps.srun(stepPatience, "--pty") + " sh -c " + posixsh.Quote(program)
		return s.Channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"exec sh -lc " + posixsh.Quote(line)}))
	}
	ok, err := s.Channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{posixsh.LoginLine}))
	if !ok || err != nil {
		return ok, err
	}
	const newline = `n=$(printf '\n.'); n=${n%.}; ` // the line itself can have none
	words := strings.ReplaceAll(posixsh.Quote(program), "\n", `'"$n"'`)
	_, err = io.WriteString(s.Channel, newline+"exec "+s.steps.srun(stepPatience)+" sh -c "+words+"\n")
	return err == nil, err
}

// sftpCommand runs the node's server of files, which distributions have at different
// places.
const sftpCommand = `for p in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec; do ` +
	`test -x $p/sftp-server && exec $p/sftp-server; done; echo "sftp-server is not installed on this node" >&2; exit 127`

// isSFTP reports whether a subsystem request asks for sftp.
func isSFTP(payload []byte) bool {
	var subsystem struct{ Name string }
	return ssh.Unmarshal(payload, &subsystem) == nil && subsystem.Name == "sftp"
}

// forward connects to an address for a "direct-tcpip" channel (RFC 4254, section 7.2).
func (p *plainSteps) forward(ctx context.Context, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(payload, &to); err != nil {
		return nil, nil, &ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: "malformed address"}
	}
	c, err := p.dial(ctx, "tcp", net.JoinHostPort(to.Host, strconv.FormatUint(uint64(to.Port), 10)))
	if err != nil {
		return nil, nil, &ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: err.Error()}
	}
	requests := make(chan *ssh.Request)
	return &connChannel{Conn: c, end: sync.OnceFunc(func() { close(requests) })}, requests, nil
}

// connChannel is a connection as a channel, which has no requests.
type connChannel struct {
	net.Conn
	end func()
}

// CloseWrite implements ssh.Channel.
func (c *connChannel) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// Read reads, and ends the requests at the end: the other side sends no more.
func (c *connChannel) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Close implements ssh.Channel.
func (c *connChannel) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// SendRequest implements ssh.Channel.
func (c *connChannel) SendRequest(string, bool, []byte) (bool, error) { return false, nil }

// Stderr implements ssh.Channel.
func (c *connChannel) Stderr() io.ReadWriter { return noStderr{} }

type noStderr struct{}

func (noStderr) Read([]byte) (int, error)    { return 0, io.EOF }
func (noStderr) Write(p []byte) (int, error) { return len(p), nil }

// dial connects by bash in a step.
func (p *plainSteps) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" {
		return nil, p.steps.noWay(fmt.Errorf("sockets cannot be reached: %w", errNoPython))
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	release, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	mark := newMark()
	line := fmt.Sprintf("exec %s bash -c %s relay %s %s %s", p.steps.srun(stepPatience), posixsh.Quote(relayBash), mark, posixsh.Quote(host), posixsh.Quote(port))
	s, err := p.steps.host.startStream(ctx, posixsh.LoginLine, line, readiness{way: "srun", mark: mark, refused: relayRefused})
	if err != nil {
		release()
		return nil, err
	}
	return &plainConn{s, release}, nil
}

// plainConn frees its step on Close.
type plainConn struct {
	*stream
	release func()
}

// Close implements net.Conn.
func (c *plainConn) Close() error {
	defer c.release()
	return c.stream.Close()
}

// relayBash prints the mark once connected, or exits with status 7. It ends after a
// minute of silence after its input ended, since nobody can tell it that the caller gave
// up. A background command has no standard input unless it is redirected. bash cannot
// half-close a connection. A job step is a process group.
const relayBash = `exec 3<>"/dev/tcp/$2/$3" || exit 7; exec 4<&0; printf "%s\n" "$1"; ` +
	`{ cat <&4 >&3; sleep 60; kill -9 0; } & cat <&3; trap "" TERM; kill 0; exit 0`

// relayRefused reports whether nothing listened at the address.
func relayRefused(exit int, _ string) bool { return exit == 7 }
