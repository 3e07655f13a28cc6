package netwatch

import (
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"tunctl/internal/latest"
)

// networkEvents sends after each netlink message about addresses and routes.
func networkEvents(log *slog.Logger) (<-chan struct{}, func()) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	f := os.NewFile(uintptr(fd), "netlink") // nil without a socket; to close that does nothing
	if err == nil {
		groups := uint32(unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE)
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	}
	if err != nil {
		_ = f.Close()
		log.Debug("no netlink; the network is polled", "err", err)
		return nil, func() {}
	}
	events := make(chan struct{}, 1)
	go func() {
		defer close(events)
		buf := make([]byte, 32<<10)
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
			latest.Signal(events)
		}
	}()
	return events, func() {
		_ = f.Close()
		for range events { // until they end
		}
	}
}

// defaultRoutes are the default routes in /proc.
func defaultRoutes() []string {
	var routes []string
	for path, zero := range map[string]int{"/proc/net/route": 1, "/proc/net/ipv6_route": 0} {
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && strings.Trim(f[zero], "0") == "" && f[len(f)-1] != "lo" {
				// the device and the gateway, not the counters
				routes = append(routes, f[0]+f[2]+f[4])
			}
		}
	}
	return routes
}
