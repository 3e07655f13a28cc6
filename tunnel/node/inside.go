package node

import (
	"context"
	"errors"
	"net"
	"time"

	"tunctl/tunnel/failure"
)

// DialInside connects to an address as the node sees it, by the relay inside the job: the
// connection outlives the one to the host where the relay does. What is written first costs no
// round trip of its own. Its errors are those of [Node.Dial], or say why there is no relay.
func (n *Node) DialInside(ctx context.Context, network, address string, first []byte) (net.Conn, error) {
	j := n.job
	if j.o.NoResume {
		return nil, errNoResume
	}
	for again := true; ; again = false {
		r, err := j.route(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := j.relay(r).dialAndWrite(ctx, network, address, first)
		if err == nil || !again || !failure.IsRoute(err) {
			return conn, err
		}
		j.settle(nil, time.Time{})
	}
}

var (
	errNoResume = errors.New("resume is false for this host")
	errOutside  = errors.New("programs outside the job are kept for ten minutes only")
)

// Ends is why what runs inside the job ends with the connection to the host; nil: it continues,
// as far as is known.
func (n *Node) Ends() error {
	j := n.job
	j.mu.Lock()
	chosen, failed := j.chosen, j.pause.err
	j.mu.Unlock()
	if j.o.NoResume {
		return errNoResume
	}
	if chosen == nil {
		return failed
	}
	relay := j.relay(chosen)
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if run := relay.running; chosen.name == outsideRoute || run != nil && !run.Info().Inside {
		return errOutside
	}
	if relay.running == nil && errors.Is(relay.pause.err, errNoPython) {
		return relay.pause.err
	}
	return nil
}

// relay is that of a route.
func (j *jobAccess) relay(r *route) *sharedRelay {
	if r.name == stepRoute {
		return j.steps.relay
	}
	return j.onHop
}
