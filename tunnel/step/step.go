// Package step runs programs and opens connections inside a job, all through one process
// there. That process is a relay, a program in Python which is sent to it on its standard
// input; nothing is installed.
package step

import (
	"context"
	"errors"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
)

// Command is the shell command that starts the relay, for `srun … ` or a login on the
// node. The program itself is sent by [Start].
func Command() string { return "exec python3 -c ..." }

// Options tell the relay about the job.
type Options struct {
	Job  string // the job's id; "": there is none, the environment is the process's own
	Port int    // of the job's server, whose environment programs get; 0: unknown
}

// Info is what the relay found out when it started.
type Info struct {
	Node    string // the name of the machine
	Inside  bool   // the relay is part of the job
	Environ string // where the environment of programs is from: "server", "job", or "step"
}

// Conn is a running relay. Its channels are independent: a slow one does not hold up the
// others.
type Conn struct{}

// Start sends the relay to a process that runs [Command], and waits until it responds. It
// closes rw if that fails; else Close does.
func Start(ctx context.Context, rw io.ReadWriteCloser, o Options) (*Conn, error) {
	return nil, errors.New("not implemented")
}

// Info is what the relay found out when it started.
func (c *Conn) Info() Info { return Info{} }

// OpenChannel opens a channel as an SSH server inside the job would (RFC 4254): "session",
// "direct-tcpip" or "direct-streamlocal@openssh.com". Refusals are *ssh.OpenChannelError.
func (c *Conn) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	return nil, nil, errors.New("not implemented")
}

// Dial connects to an address as the node sees it; network is "tcp" or "unix". Errors wrap
// api.ErrRefused if nothing listens there.
func (c *Conn) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return nil, errors.New("not implemented")
}

// Open is how many channels are open.
func (c *Conn) Open() int { return 0 }

// Done is closed when the relay has ended, or the way to it was lost. Err says why.
func (c *Conn) Done() <-chan struct{} { return nil }

// Err is why the relay ended; nil if Close ended it.
func (c *Conn) Err() error { return nil }

// Close ends the relay and everything that it runs.
func (c *Conn) Close() error { return nil }
