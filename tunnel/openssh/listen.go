package openssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// masterTimeout bounds what the ssh program does without its host.
const masterTimeout = 5 * time.Second

// Listen has the ssh program listen on its host: x/crypto's connection does not get the
// program's reply to a request for that. The program forwards connections to a socket
// beside its own, in a folder that only this user can access.
func (m *Master) Listen(network, address string) (net.Listener, error) {
	socket := filepath.Join(m.dir, fmt.Sprintf("r%d", m.sockets.Add(1)))
	raw, err := new(net.ListenConfig).Listen(m.running, "unix", socket)
	if err != nil {
		return nil, err
	}
	l := &masterListener{Listener: raw, master: m, forward: address + ":" + forwardField(socket)}
	if network == "unix" {
		l.forward = forwardField(address) + ":" + forwardField(socket)
	}
	port, err := m.request(m.running, "forward", l.forward) // which ends with the program
	if err == nil {
		l.addr, err = listenerAddr(network, address, port)
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	l.stop = context.AfterFunc(m.running, func() { _ = raw.Close() })
	return l, nil
}

// forwardField is a path in a forward as ssh reads it.
func forwardField(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `%`, `%%`).Replace(path)
}

// listenerAddr is the address of a listener on the host, with the port if the host chose it.
func listenerAddr(network, address, port string) (net.Addr, error) {
	if network == "unix" {
		return &net.UnixAddr{Name: address, Net: "unix"}, nil
	}
	host, asked, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if asked != "0" {
		port = asked
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return &net.TCPAddr{IP: net.ParseIP(host), Port: int(n)}, err
}

// request has the ssh program add a forward or cancel it, and returns what that prints:
// the port if the host chose it.
func (m *Master) request(ctx context.Context, what, forward string) (string, error) {
	cmd := exec.CommandContext(ctx, m.cmd.Path, "-F", "none", "-S", m.control(), "-O", what, "-R", forward, "--", "host")
	cmd.Env, cmd.WaitDelay = m.cmd.Env, time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(api.NewRemoteText(string(exit.Stderr)).String())
	}
	return strings.TrimSpace(string(out)), err
}

// alive reports whether the ssh program responds.
func (m *Master) alive() bool {
	ctx, cancel := context.WithTimeout(m.running, masterTimeout)
	defer cancel()
	raw, err := dialControl(ctx, m.control())
	if err != nil {
		return false
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(masterTimeout))
	_, _, _, err = ssh.NewControlClientConn(raw)
	return err == nil
}

// masterListener accepts what the ssh program forwards from the host to a socket of ours.
type masterListener struct {
	net.Listener
	master  *Master
	forward string // as the program knows it
	addr    net.Addr
	stop    func() bool
}

// Addr implements net.Listener.
func (l *masterListener) Addr() net.Addr { return l.addr }

// Accept implements net.Listener.
func (l *masterListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &masterStream{raw.(*net.UnixConn), sync.OnceValue(l.master.alive)}, nil
}

// Close implements net.Listener.
func (l *masterListener) Close() error {
	if !l.stop() {
		return net.ErrClosed
	}
	_ = l.Listener.Close()
	ctx, cancel := context.WithTimeout(l.master.running, masterTimeout)
	defer cancel()
	_, err := l.master.request(ctx, "cancel", l.forward)
	return err
}

// masterStream is a connection from the host. An ssh program that dies closes it as one
// whose data has ended does: only a live one makes an end complete.
type masterStream struct {
	*net.UnixConn
	complete func() bool // at the end of the data
}

// Read implements net.Conn.
func (s *masterStream) Read(p []byte) (int, error) {
	n, err := s.UnixConn.Read(p)
	if errors.Is(err, io.EOF) && !s.complete() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
