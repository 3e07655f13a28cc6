package term

import (
	"context"
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"tunctl/internal/ctxtime"
)

// hideTyping turns a console's echo off; restore turns it on again.
func hideTyping(fd uintptr) (restore func(), err error) {
	console := windows.Handle(fd)
	var before uint32
	if err := windows.GetConsoleMode(console, &before); err != nil {
		return nil, err
	}
	hidden := before&^windows.ENABLE_ECHO_INPUT | windows.ENABLE_LINE_INPUT | windows.ENABLE_PROCESSED_INPUT
	if err := windows.SetConsoleMode(console, hidden); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(console, before) }, nil
}

// dropTyped discards what was typed at a console and not read.
func dropTyped(fd uintptr) { _ = windows.FlushConsoleInputBuffer(windows.Handle(fd)) }

// awaitInput cannot wait for a whole line here: a console reports each key.
func awaitInput(context.Context, *os.File) error { return errors.ErrUnsupported }

// OnResize calls f whenever the terminal's size may have changed, until ctx ends. A
// console reports its size only on request.
func OnResize(ctx context.Context, f func()) {
	for ctxtime.Sleep(ctx, 500*time.Millisecond) == nil {
		f()
	}
}

// CanSuspend reports that no program can be suspended by Ctrl-Z here.
func CanSuspend() bool { return false }

// CloseOwnConsole closes the console window that Windows opened for this program alone,
// as it does for one that starts at login. A console that the user typed the command
// into also has their shell in it, and stays.
func CloseOwnConsole() {
	kernel := windows.NewLazySystemDLL("kernel32.dll")
	var pids [2]uint32
	list := kernel.NewProc("GetConsoleProcessList")
	n, _, _ := list.Call(uintptr(unsafe.Pointer(&pids[0])), uintptr(len(pids))) //nolint:gosec // how a call takes an array
	if n == 1 {
		_, _, _ = kernel.NewProc("FreeConsole").Call() // at worst the window stays
	}
}
