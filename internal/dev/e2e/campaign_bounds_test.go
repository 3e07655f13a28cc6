//go:build linux

package e2e

import (
	"time"

	"tunctl/internal/agent/session"
)

// bound is how long something may take, by the limits in force.
type bound func(session.Limits) time.Duration

func atOnce(session.Limits) time.Duration { return time.Second }

// noticed is until a change of the network is found to have cost the connection.
func noticed(l session.Limits) time.Duration { return time.Second + l.Tunnel.ProbeTimeout }

// dialled is until a dial has failed.
func dialled(l session.Limits) time.Duration { return l.Tunnel.DialTimeout }

// unacknowledged is until a client's bytes have stayed without an acknowledgement.
func unacknowledged(l session.Limits) time.Duration {
	return l.Tunnel.ProbeAfter + l.Tunnel.Unacknowledged + time.Second
}

// unresponsive is until a client's bytes, and a keepalive, have stayed without a reply.
func unresponsive(l session.Limits) time.Duration {
	return l.Tunnel.ProbeAfter + l.Tunnel.Unanswered + time.Second
}

// idleUnresponsive is until the keepalive of an idle connection has stayed without one.
func idleUnresponsive(l session.Limits) time.Duration {
	return l.Tunnel.KeepaliveEvery + l.Tunnel.Unanswered + time.Second
}

// replaced is until a connection in use that does not respond is given up for a new
// one, which keeps a distance from the last login.
func replaced(l session.Limits) time.Duration {
	return max(unresponsive(l)+l.Tunnel.ReplaceUnanswered, relogin(l))
}

// noDial is until that new one has failed, too.
func noDial(l session.Limits) time.Duration { return replaced(l) + dialled(l) }

// asked is until the scheduler was asked.
func asked(l session.Limits) time.Duration {
	return l.Jobs.Query + time.Duration(l.Jobs.Jitter*float64(l.Jobs.Query))
}

// unanswered is until the scheduler was asked twice without an answer.
func unanswered(l session.Limits) time.Duration { return 2 * (asked(l) + l.Jobs.Command) }

// relogin is until the next login, which keeps a distance from the last.
func relogin(l session.Limits) time.Duration { return l.Tunnel.LoginSpacing + time.Second }

// retried is the longest wait between two tries, after many in vain.
func retried(l session.Limits) time.Duration { return l.Tunnel.RetryMax }

// waited is the same while somebody waits; the next login keeps its distance.
func waited(l session.Limits) time.Duration {
	return max(l.Tunnel.WatchedMax, l.Tunnel.LoginSpacing) + time.Second
}

// plus adds what others take.
func plus(d time.Duration, b bound) bound {
	return func(l session.Limits) time.Duration { return d + b(l) }
}
