//go:build unix

package term

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// hideTyping turns a terminal's echo off and discards what was typed before; restore turns
// the echo on again.
func hideTyping(fd uintptr) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(fd), getTermios)
	if err != nil {
		return nil, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	hidden.Lflag |= unix.ICANON | unix.ISIG
	hidden.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(int(fd), setFlushed, &hidden); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(fd), setTermios, before) }, nil
}

// dropTyped discards what was typed at a terminal and not read: half a password must not
// become the answer to the next question, or show up in the shell.
func dropTyped(fd uintptr) {
	if mode, err := unix.IoctlGetTermios(int(fd), getTermios); err == nil {
		_ = unix.IoctlSetTermios(int(fd), setFlushed, mode)
	}
}

// awaitInput returns nil once there is something to read, or ctx's error. It selects,
// since macOS cannot poll a terminal.
func awaitInput(ctx context.Context, f *os.File) error {
	ended, end, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ended.Close() }()
	defer func() { _ = end.Close() }()
	defer context.AfterFunc(ctx, func() { _ = end.Close() })()
	in, wake := int(f.Fd()), int(ended.Fd())
	if max(in, wake) >= unix.FD_SETSIZE {
		return errors.ErrUnsupported
	}
	for {
		var ready unix.FdSet
		ready.Set(in)
		ready.Set(wake)
		switch _, err := unix.Select(max(in, wake)+1, &ready, nil, nil, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("select", err)
		case ctx.Err() != nil:
			return ctx.Err()
		case ready.IsSet(in):
			return nil
		}
	}
}

// OnResize calls f whenever the terminal's size may have changed, until ctx ends.
func OnResize(ctx context.Context, f func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// CanSuspend reports whether a shell is there that could continue this program after
// Ctrl-Z. The group of a session's leader has none, as of a program that a terminal window
// was opened for: the kernel does not stop it.
func CanSuspend() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != unix.Getpgrp()
}

// CloseOwnConsole does nothing: only Windows opens a console for a program.
func CloseOwnConsole() {}
