package main

import "golang.org/x/sys/windows"

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
