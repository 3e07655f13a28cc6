package home

import (
	"time"

	"golang.org/x/sys/windows"
)

// bootTime is when this computer was started.
func bootTime() time.Time { return time.Now().Add(-windows.DurationSinceBoot()) }
