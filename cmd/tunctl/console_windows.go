package main

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// leaveConsole closes the console window that Windows opened for this program alone,
// as it does for one that starts at login. One that a person typed the command into
// has their shell in it, too, and stays.
func leaveConsole() {
	kernel := windows.NewLazySystemDLL("kernel32.dll")
	var pids [2]uint32
	list := kernel.NewProc("GetConsoleProcessList")
	n, _, _ := list.Call(uintptr(unsafe.Pointer(&pids[0])), uintptr(len(pids))) //nolint:gosec // how a call takes an array
	if n == 1 {
		_, _, _ = kernel.NewProc("FreeConsole").Call() // at worst the window stays
	}
}
