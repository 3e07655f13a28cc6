package ptytest

import (
	"time"

	"golang.org/x/sys/unix"
)

// AnswerHidden types a line once the terminal no longer echoes.
func (p *Program) AnswerHidden(line string) {
	p.t.Helper()
	late := time.NewTimer(timeout)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond) // nothing reports a change of the mode
	defer tick.Stop()
	for {
		mode, err := unix.IoctlGetTermios(int(p.pty.Fd()), unix.TCGETS)
		if err != nil {
			p.t.Fatal(err)
		}
		if mode.Lflag&unix.ECHO == 0 {
			p.Answer(line)
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			p.t.Fatal("what is typed is shown")
		}
	}
}
