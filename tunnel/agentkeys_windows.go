package tunnel

import (
	"context"
	"net"
	"os"
	"strings"
	"time"
)

// openSSHPipe is where the OpenSSH agent of Windows listens.
const openSSHPipe = `\\.\pipe\openssh-ssh-agent`

func dialAgentSocket(ctx context.Context, socket string) (net.Conn, error) {
	if socket == "" {
		socket = openSSHPipe
	}
	if !strings.HasPrefix(socket, `\\.\pipe\`) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	f, err := os.OpenFile(socket, os.O_RDWR, 0)
	if err != nil {
		return nil, errNoAgent
	}
	return pipeConn{f}, nil
}

// pipeConn is a named pipe as a net.Conn.
type pipeConn struct{ *os.File }

func (p pipeConn) LocalAddr() net.Addr  { return pipeAddr(p.Name()) }
func (p pipeConn) RemoteAddr() net.Addr { return pipeAddr(p.Name()) }

func (p pipeConn) SetDeadline(t time.Time) error { return p.File.SetDeadline(t) }

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }
