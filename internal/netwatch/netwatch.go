// Package netwatch reports changes of this machine's network, and wakes from sleep. What
// to do about them is the caller's decision.
package netwatch

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	// A wall clock that ran wakeJump further than the ticks say slept meanwhile:
	// timers stand still in sleep.
	wakeTick = 15 * time.Second
	wakeJump = 20 * time.Second
	// settleTime gathers the many events of one change.
	settleTime = 250 * time.Millisecond
)

// Watch calls changed after each wake from sleep and each change of
// addresses or default routes, until ctx ends.
func Watch(ctx context.Context, changed func(), log *slog.Logger) {
	events, stop := networkEvents(log)
	defer stop()
	w := &netwatch{wall: wallClock, look: fingerprint}
	w.run(ctx, events, changed, log)
}

// netwatch is what a network change is found by.
type netwatch struct {
	wall func() time.Time
	look func() string // the network as it is
}

func (w *netwatch) run(ctx context.Context, events <-chan struct{}, changed func(), log *slog.Logger) {
	tick := time.NewTicker(wakeTick)
	defer tick.Stop()
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	last, known := w.wall(), w.look()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := w.wall()
			slept := now.Sub(last) > wakeTick+wakeJump
			last = now
			if slept {
				log.Info("woke from sleep")
				changed()
			}
			settle.Reset(settleTime) // where no events come, look now and then
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
			settle.Reset(settleTime)
		case <-settle.C:
			// Routers renew IPv6 routes all the time: only a difference counts.
			if now := w.look(); now != known {
				known = now
				changed()
			}
		}
	}
}

// wallClock is the time without the monotonic reading, which sleep does not move.
func wallClock() time.Time { return time.Now().Round(0) }

// fingerprint is the machine's addresses and default routes. An interface without
// a link keeps its addresses for a while, and they lead nowhere.
func fingerprint() string {
	parts := defaultRoutes()
	links, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, link := range links {
		if link.Flags&net.FlagUp == 0 || link.Flags&net.FlagRunning == 0 {
			continue
		}
		addrs, err := link.Addrs()
		if err != nil {
			continue // it went away just now
		}
		parts = append(parts, global(addrs)...)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// global are the addresses by which other machines are reached.
func global(addrs []net.Addr) []string {
	var list []string
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			list = append(list, n.String())
		}
	}
	return list
}
