package tunnel

import (
	"context"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/windows"
)

// openSSHPipe is where the OpenSSH agent of Windows listens.
const openSSHPipe = `\\.\pipe\openssh-ssh-agent`

// dialAgentSocket connects to an agent. Where none is named, that is OpenSSH's, else
// PuTTY's.
func dialAgentSocket(ctx context.Context, socket string) (net.Conn, error) {
	if socket == "" {
		if c, err := dialPipe(openSSHPipe); err == nil {
			return c, nil
		}
		pageant, err := pageantPipe()
		if err != nil {
			return nil, errNoAgent
		}
		return dialPipe(pageant)
	}
	if !strings.HasPrefix(socket, `\\.\pipe\`) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return dialPipe(socket)
}

// dialPipe opens a named pipe; asynchronously, since only such a one has deadlines
// and can be closed while it is read.
func dialPipe(name string) (net.Conn, error) {
	f, err := os.OpenFile(name, os.O_RDWR|windows.O_FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		return nil, errNoAgent
	}
	return pipeConn{f}, nil
}

// pipeConn is a named pipe as a net.Conn.
type pipeConn struct{ *os.File }

func (p pipeConn) LocalAddr() net.Addr  { return pipeAddr(p.Name()) }
func (p pipeConn) RemoteAddr() net.Addr { return pipeAddr(p.Name()) }

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }
