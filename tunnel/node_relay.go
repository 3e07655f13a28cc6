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

// relays are connections onto a node that a command on the host carries through its
// standard input and output.
type relays struct {
	host  *Host
	names []string
	job   string

	patience time.Duration // for each name to answer

	mu    sync.Mutex
	final error // why no more logins on the node are tried
}

// maxUnanswered is how many names of a node may keep silent before the next way has its
// turn.
const maxUnanswered = 2

// errNodeSilent says that a node keeps silent.
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
		// What is read of its messages is told at this level only.
		line := fmt.Sprintf("printf '%%s\\n' %s; exec ssh -o BatchMode=yes -o ConnectTimeout=%d -o StrictHostKeyChecking=accept-new"+
			" -o ForwardX11=no -o LogLevel=DEBUG2 -W %s %s", mark, int(r.patience/time.Second)+1, address, name)
		var c net.Conn
		c, err = r.start(ctx, posixsh.Line, line, signs{
			way: what, mark: mark, more: sshConfirmed, refused: sshRefused,
			class: func(said string) failureClass { return readSSH(said).class }, greeted: sshGreeted, within: r.patience,
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

// dialSrun connects by a relay in a step of the job.
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
	// Without -u, srun holds back what has no line's end.
	line := fmt.Sprintf("exec srun --overlap --jobid=%s --nodelist=%s --nodes=1 --ntasks=1 --mpi=none --quiet -u sh -c %s relay %s %s %s %s %s",
		r.job, node, posixsh.Quote(relayScript), mark, posixsh.Quote(host), posixsh.Quote(port),
		posixsh.Quote("exec("+strconv.Quote(relayPython)+")"), posixsh.Quote(relayBash))
	return r.start(ctx, posixsh.LoginLine, line, signs{way: what, mark: mark, refused: relayRefused})
}

// start runs a line on the host and waits for its signs that the connection stands.
func (r *relays) start(ctx context.Context, starter, line string, by signs) (net.Conn, error) {
	c, err := r.host.current()
	if err != nil {
		return nil, err
	}
	s, err := c.stream(ctx, starter, line)
	if err != nil {
		return nil, err
	}
	if by.greeted != "" {
		late := time.AfterFunc(by.within, func() { s.endUnless(by.greeted) })
		defer late.Stop()
	}
	if err := s.await(ctx, by); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// safeWord reports whether text is an address, a name or a number and nothing that
// a shell or a program would read as more than that.
func safeWord(text string) bool {
	return text != "" && text[0] != '-' && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-[]") == ""
}

// newMark is a word that no start-up file prints by chance.
func newMark() string { return "tunctl-" + rand.Text() }

// What runs on the node. It says the mark once it is connected; where it cannot, it
// ends with status 7. It does not outlive a minute's silence after its input's end:
// who gave up on it cannot tell it so.
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

	// A command in the background has no input of its own unless it is given one.
	// bash cannot close half a connection; a step of a job is a process group.
	relayBash = `exec 3<>"/dev/tcp/$2/$3" || exit 7; exec 4<&0; printf "%s\n" "$1"; ` +
		`{ cat <&4 >&3; sleep 60; kill -9 0; } & cat <&3; trap "" TERM; kill 0; exit 0`
)

// sshGreeted is what ssh says when the node's sshd has answered.
const sshGreeted = "debug1: Remote protocol version "

// sshConfirmed is what ssh says when the far end of its channel stands.
const sshConfirmed = ": open confirm "

// sshRefused reports whether ssh got onto the node and found nobody listening.
func sshRefused(_ int, said string) bool {
	return strings.Contains(said, "open failed: connect failed")
}

// relayRefused reports the same of a relay, by its exit status.
func relayRefused(exit int, _ string) bool { return exit == 7 }
