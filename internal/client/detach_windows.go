package client

import "syscall"

// detachedProcess is DETACHED_PROCESS of CreateProcess: no console.
const detachedProcess = 0x00000008

func detach() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess, HideWindow: true}
}
