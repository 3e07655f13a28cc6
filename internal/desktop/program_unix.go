//go:build unix

package desktop

import "syscall"

// detached gives a program its own session.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
