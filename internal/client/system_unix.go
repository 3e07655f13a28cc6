//go:build unix

package client

import "syscall"

const (
	refused     = syscall.ECONNREFUSED // a socket without an agent behind it
	unsupported = syscall.EAFNOSUPPORT // a system without such sockets
)

// detach leaves the terminal's session, so that neither Ctrl-C nor a closed window
// reaches the agent.
func detach() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
