//go:build !windows

package setup

// puttyHosts are the hosts of PuTTY's saved sessions: it is a Windows program.
func puttyHosts() []string { return nil }
