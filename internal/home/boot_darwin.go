package home

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is when this computer was started; zero if that is not known.
func bootTime() time.Time {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return time.Time{}
	}
	return time.Unix(at.Unix())
}
