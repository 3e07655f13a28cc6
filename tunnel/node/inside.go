package node

import (
	"context"
	"net"
	"time"

	"tunctl/tunnel/failure"
)

// DialInside connects to an address as the node sees it, by the relay inside the job: the
// connection outlives the one to the host where the relay does. Its errors are those of
// [Node.Dial], or say why there is no relay.
func (n *Node) DialInside(ctx context.Context, network, address string) (net.Conn, error) {
	j := n.job
	for again := true; ; again = false {
		r, err := j.route(ctx)
		if err != nil {
			return nil, err
		}
		relay := j.onHop
		if r.name == stepRoute {
			relay = j.steps.relay
		}
		conn, err := relay.dial(ctx, network, address)
		if err == nil || !again || !failure.IsRoute(err) {
			return conn, j.noteEnd(err)
		}
		j.settle(nil, time.Time{})
	}
}
