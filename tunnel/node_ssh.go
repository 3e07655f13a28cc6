package tunnel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// sshOnHost are connections to a node through ssh -W on the host.
type sshOnHost struct {
	host    *Host
	names   []string
	timeout time.Duration // for each name

	mu    sync.Mutex
	final error // why no more logins on the node are tried
}

// maxUnanswered is how many names of a node may time out before the next way is tried.
const maxUnanswered = 2

var errNodeSilent = errors.New("the node does not respond")

// dial is the dial of a way.
func (r *sshOnHost) dial(ctx context.Context, network, address string) (net.Conn, error) {
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
		c, err = r.host.startStream(ctx, line, readiness{
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

// safeWord reports whether text is only an address, a name or a number, without a
// meaning to a shell or as an option.
func safeWord(text string) bool {
	return text != "" && text[0] != '-' && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:+-[]") == ""
}

// newMark is a random word, which no start-up file prints.
func newMark() string { return "tunctl-" + rand.Text() }

// sshGreeted is what ssh prints when the node's sshd responds.
const sshGreeted = "debug1: Remote protocol version "

// sshConfirmed is what ssh prints when its channel is open.
const sshConfirmed = ": open confirm "

// sshRefused reports whether ssh logged in to the node but nothing listened at the
// address.
func sshRefused(_ int, said string) bool {
	return strings.Contains(said, "open failed: connect failed")
}
