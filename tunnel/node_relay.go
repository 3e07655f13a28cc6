package tunnel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"tunctl/internal/posixsh"
)

// relays are connections to a node through the standard input and output of a command on
// the host.
type relays struct {
	host  *Host
	names []string
	job   string

	timeout time.Duration // for each name

	mu    sync.Mutex
	final error // why no more logins on the node are tried
}

// maxUnanswered is how many names of a node may time out before the next way is tried.
const maxUnanswered = 2

var errNodeSilent = errors.New("the node does not respond")

// dialSSH connects by ssh -W on the host.
func (r *relays) dialSSH(ctx context.Context, network, address string) (net.Conn, error) {
	const what = "ssh on the host"
	if network != "tcp" {
		return nil, &noWayError{what, errors.New("unix sockets cannot be reached this way")}
	}
	r.mu.Lock()
	err := r.final
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	unanswered := 0
	for _, name := range r.names {
		if !safeWord(name) || !safeWord(address) {
			err = &noWayError{what, fmt.Errorf("%q and %q cannot be part of a command", name, address)}
			continue
		}
		mark := newMark()
		// Only this log level has the messages that are read below.
		line := fmt.Sprintf("printf '%%s\\n' %s; exec ssh -o BatchMode=yes -o ConnectTimeout=%d -o StrictHostKeyChecking=accept-new"+
			" -o ForwardX11=no -o LogLevel=DEBUG2 -W %s %s", mark, int(r.timeout/time.Second)+1, address, name)
		var c net.Conn
		c, err = r.start(ctx, posixsh.Line, line, readiness{
			way: what, mark: mark, stderr: sshConfirmed, refused: sshRefused,
			class: func(said string) failureClass { return readSSHOutput(said).class }, answered: sshGreeted, timeout: r.timeout,
		})
		if _, bad := errors.AsType[*noWayError](err); !bad {
			return c, err
		}
		if errors.Is(err, errNodeSilent) {
			unanswered++
		}
		if classOf(err) == classRefused || unanswered == maxUnanswered {
			break
		}
	}
	if isFinal(err) {
		r.mu.Lock()
		r.final = err
		r.mu.Unlock()
	}
	return nil, err
}

// dialSrun connects by a relay in a job step.
func (r *relays) dialSrun(ctx context.Context, network, address string) (net.Conn, error) {
	const what = "srun"
	node, _, _ := strings.Cut(r.names[0], ".")
	if !safeWord(node) || !safeWord(r.job) {
		return nil, &noWayError{what, fmt.Errorf("%q and %q cannot be part of a command", node, r.job)}
	}
	host, port := address, ""
	if network == "tcp" {
		var err error
		if host, port, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	mark := newMark()
	// Without -u, srun buffers output until a newline.
	line := fmt.Sprintf("exec srun --overlap --jobid=%s --nodelist=%s --nodes=1 --ntasks=1 --mpi=none --quiet -u sh -c %s relay %s %s %s %s %s",
		r.job, node, posixsh.Quote(relayScript), mark, posixsh.Quote(host), posixsh.Quote(port),
		posixsh.Quote("exec("+strconv.Quote(relayPython)+")"), posixsh.Quote(relayBash))
	return r.start(ctx, posixsh.LoginLine, line, readiness{way: what, mark: mark, refused: relayRefused})
}

// start runs a line on the host and waits until its connection is ready.
func (r *relays) start(ctx context.Context, starter, line string, by readiness) (net.Conn, error) {
	c, err := r.host.current()
	if err != nil {
		return nil, err
	}
	s, err := c.stream(ctx, starter, line)
	if err != nil {
		return nil, err
	}
	if by.answered != "" {
		late := time.AfterFunc(by.timeout, func() { s.closeUnless(by.answered) })
		defer late.Stop()
	}
	if err := s.awaitReady(ctx, by); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// safeWord reports whether text is only an address, a name or a number, without a
// meaning to a shell or as an option.
func safeWord(text string) bool {
	return text != "" && text[0] != '-' && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-[]") == ""
}

// newMark is a random word, which no start-up file prints.
func newMark() string { return "tunctl-" + rand.Text() }

// These run on the node. They print the mark once connected, or exit with status 7. They
// end after a minute of silence after their input ended, since nobody can tell them that
// the caller gave up.
const (
	relayScript = `for p in python3 python; do ` +
		`command -v $p >/dev/null 2>&1 && exec $p -c "$4" "$1" "$2" "$3"; done; ` +
		`test -n "$3" && command -v bash >/dev/null 2>&1 && exec bash -c "$5" relay "$1" "$2" "$3"; ` +
		`echo "neither python nor bash is installed" >&2; exit 127`

	relayPython = `
import os, socket, sys, threading
mark, host, port = sys.argv[1:4]
try:
    if port:
        s = socket.create_connection((host, int(port)), 20)
    else:
        s = socket.socket(socket.AF_UNIX)
        s.connect(host)
except Exception as e:
    sys.stderr.write("relay: %s\n" % e)
    sys.exit(7)
s.settimeout(None)
os.write(1, (mark + "\n").encode())
def up():
    try:
        while True:
            data = os.read(0, 65536)
            if not data:
                break
            s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        s.settimeout(60)
    except Exception:
        os._exit(8)
t = threading.Thread(target=up)
t.daemon = True
t.start()
try:
    while True:
        data = s.recv(65536)
        if not data:
            break
        while data:
            data = data[os.write(1, data):]
except Exception:
    os._exit(8)
os._exit(0)
`

	// A background command has no standard input unless it is redirected. bash cannot
	// half-close a connection. A job step is a process group.
	relayBash = `exec 3<>"/dev/tcp/$2/$3" || exit 7; exec 4<&0; printf "%s\n" "$1"; ` +
		`{ cat <&4 >&3; sleep 60; kill -9 0; } & cat <&3; trap "" TERM; kill 0; exit 0`
)

// sshGreeted is what ssh prints when the node's sshd responds.
const sshGreeted = "debug1: Remote protocol version "

// sshConfirmed is what ssh prints when its channel is open.
const sshConfirmed = ": open confirm "

// sshRefused reports whether ssh logged in to the node but nothing listened at the
// address.
func sshRefused(_ int, said string) bool {
	return strings.Contains(said, "open failed: connect failed")
}

// relayRefused is the same for a relay.
func relayRefused(exit int, _ string) bool { return exit == 7 }
