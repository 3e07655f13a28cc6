package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestWhyAStepTakesItsTimeIsReadableOnANarrowTerminal(t *testing.T) {
	const cause = "Priority; an earlier job like this waited until it was its turn, for about 3 h 20 min"
	for _, width := range []int{50, 60, 80} {
		text := stepLines('⠋', "waiting in the queue (job 4711)", cause, 3*time.Second, width)
		for line := range strings.SplitSeq(text, "\n") {
			if breadth(line) >= width {
				t.Errorf("%d columns do not fit %d: %s", breadth(line), width, line)
			}
		}
		if !strings.HasPrefix(text, "⠋ waiting in the queue (job 4711)  3.0 s\n") || !strings.Contains(strings.Join(strings.Fields(text), " "), cause) {
			t.Errorf("on %d columns:\n%s", width, text)
		}
	}
}

func TestTalkTakesThePlaceOfAllUnfinishedLines(t *testing.T) {
	var screen bytes.Buffer
	term := &terminal{err: &screen, live: true}
	term.draw("⠋ waiting\n  because")
	term.say("done")
	if want := "⠋ waiting\n  because" + "\r\x1b[K" + "\x1b[A\x1b[K" + "done\n"; screen.String() != want {
		t.Errorf("got %q, want %q", screen.String(), want)
	}
}

func TestAStepsTimeIsToldWithItsUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		4600 * time.Millisecond: "4.6 s", 65 * time.Second: "1 min 05 s", 62 * time.Minute: "1 h 02 min",
	} {
		if got := stopwatch(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
