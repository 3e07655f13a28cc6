//go:build !windows

package tunnel

// sharesConnections reports whether the ssh program of this system does.
const sharesConnections = true
