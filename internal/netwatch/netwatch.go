// Package netwatch notices changes of this machine's network and the end of its sleep. The
// caller decides what follows from that.
package netwatch

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// Timers stop during sleep: if the wall clock is wakeJump ahead of the ticks, the
	// machine slept.
	wakeTick = 15 * time.Second
	wakeJump = 20 * time.Second
	// settleTime collects the many events of one change.
	settleTime = 250 * time.Millisecond
)

// Watch calls changed after each sleep and each change of addresses or default routes,
// until ctx ends.
func Watch(ctx context.Context, changed func(), log *slog.Logger) {
	events, stop := networkEvents(log)
	defer stop()
	watch(ctx, events, wallClock, fingerprint, changed, log)
}

// watch compares the wall clock and the network with what they were.
func watch(ctx context.Context, events <-chan struct{}, clock func() time.Time, network func() string, changed func(), log *slog.Logger) {
	tick := time.Tick(wakeTick)
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	last, known := clock(), network()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			now := clock()
			slept := now.Sub(last) > wakeTick+wakeJump
			last = now
			if slept {
				log.Info("woke from sleep")
				changed()
			}
			settle.Reset(settleTime) // where the system sends no events
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
			settle.Reset(settleTime)
		case <-settle.C:
			// Routers renew IPv6 routes all the time: only a difference counts.
			if now := network(); now != known {
				known = now
				changed()
			}
		}
	}
}

// wallClock is the time without the monotonic reading, which stops during sleep.
func wallClock() time.Time { return time.Now().Round(0) }

// fingerprint is the machine's addresses and default routes. It leaves out interfaces
// without a link: they keep their addresses for a while, but nothing is reached from them.
func fingerprint() string {
	parts := defaultRoutes()
	for _, a := range addresses() {
		parts = append(parts, a.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// HasAddress reports whether packets for an address reach this machine now.
func HasAddress(a netip.Addr) bool {
	return slices.ContainsFunc(addresses(), func(n *net.IPNet) bool { return n.IP.Equal(a.AsSlice()) })
}

// addresses are those from which other machines can be reached.
func addresses() []*net.IPNet {
	var list []*net.IPNet
	links, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, link := range links {
		if link.Flags&net.FlagUp == 0 || link.Flags&net.FlagRunning == 0 {
			continue
		}
		addrs, err := link.Addrs()
		if err != nil {
			continue // it was removed meanwhile
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				list = append(list, n)
			}
		}
	}
	return list
}
