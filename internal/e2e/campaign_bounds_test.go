//go:build linux

package e2e

import (
	"time"

	"tunctl/internal/agent"
)

// bound is how long something may take, by the limits in force.
type bound func(agent.Limits) time.Duration

func atOnce(agent.Limits) time.Duration { return time.Second }

// silence is until a connection that says nothing is given up.
func silence(l agent.Limits) time.Duration {
	return l.Tunnel.KeepaliveEvery * time.Duration(l.Tunnel.KeepaliveMax+1)
}

// noticed is until a change of the network is found to have cost the connection.
func noticed(l agent.Limits) time.Duration { return time.Second + l.Tunnel.ProbeTimeout }

// dialled is until a dial has failed.
func dialled(l agent.Limits) time.Duration { return l.Tunnel.DialTimeout }

// noDial is until a silence is found and a dial has failed, too.
func noDial(l agent.Limits) time.Duration { return silence(l) + dialled(l) }

// noBanner is until a silence is found and a server has not greeted.
func noBanner(l agent.Limits) time.Duration { return silence(l) + l.Tunnel.BannerTimeout }

// asked is until the scheduler was asked.
func asked(l agent.Limits) time.Duration {
	return l.Jobs.Query + time.Duration(l.Jobs.Jitter*float64(l.Jobs.Query))
}

// unanswered is until the scheduler was asked twice without an answer.
func unanswered(l agent.Limits) time.Duration { return 2 * (asked(l) + l.Jobs.Command) }

// relogin is until the next login, which keeps a distance from the last.
func relogin(l agent.Limits) time.Duration { return l.Tunnel.LoginSpacing + time.Second }

// retried is the longest wait between two tries, after many in vain.
func retried(l agent.Limits) time.Duration { return l.Tunnel.RetryMax }

// plus adds what others take.
func plus(d time.Duration, b bound) bound {
	return func(l agent.Limits) time.Duration { return d + b(l) }
}
