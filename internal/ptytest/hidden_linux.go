package ptytest

import (
	"time"

	"golang.org/x/sys/unix"
)

// AnswerHidden answers once the terminal shows no more what is typed.
func (k *Talk) AnswerHidden(line string) {
	k.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond) // nothing tells of a terminal's mode
	defer tick.Stop()
	for {
		mode, err := unix.IoctlGetTermios(int(k.pty.Fd()), unix.TCGETS)
		if err != nil {
			k.t.Fatal(err)
		}
		if mode.Lflag&unix.ECHO == 0 {
			k.Answer(line)
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			k.t.Fatal("what is typed is shown")
		}
	}
}
