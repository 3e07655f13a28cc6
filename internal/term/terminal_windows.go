package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// hideTyping turns a console's echo off; what it returns turns it back on.
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

// dropTyped forgets what was typed at a console and not read.
func dropTyped(fd uintptr) { _ = windows.FlushConsoleInputBuffer(windows.Handle(fd)) }

// awaitInput cannot wait for a whole line here: a console tells of each key.
func awaitInput(context.Context, *os.File) error { return errors.ErrUnsupported }
