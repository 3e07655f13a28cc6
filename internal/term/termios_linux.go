package term

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
	setFlushed = unix.TCSETSF // which drops what was typed and not read
)
