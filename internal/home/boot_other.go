//go:build !linux && !darwin && !windows

package home

import "time"

// bootTime is when this computer was started; zero if that is not known.
func bootTime() time.Time { return time.Time{} }
