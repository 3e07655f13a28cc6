//go:build unix

package client

import "syscall"

// detach leaves the terminal's session, so that neither Ctrl-C nor a closed window
// reaches the agent.
func detach() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
