//go:build !windows

package openssh

// SharesConnections reports whether the ssh program of this system does.
const SharesConnections = true
