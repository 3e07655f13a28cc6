//go:build !windows

package main

// puttyHosts are the hosts of PuTTY's saved sessions: it is a Windows program.
func puttyHosts() []string { return nil }
