//go:build !windows

package main

// leaveConsole does nothing: only Windows opens one.
func leaveConsole() {}
