//go:build unix

package main

import "golang.org/x/sys/unix"

// hideTyping turns a terminal's echo off; what it returns turns it back on.
func hideTyping(fd uintptr) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(fd), getTermios)
	if err != nil {
		return nil, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	hidden.Lflag |= unix.ICANON | unix.ISIG
	hidden.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(int(fd), setTermios, &hidden); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(fd), setTermios, before) }, nil
}
