package home

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is when this computer was started; zero if that is not known.
func bootTime() time.Time {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(info.Uptime) * time.Second)
}
