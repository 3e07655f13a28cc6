package api

import (
	"testing"
	"time"
)

func TestADurationIsWrittenInOneWay(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second:                      "0 s",
		400 * time.Millisecond:            "0 s",
		45 * time.Second:                  "45 s",
		59*time.Second + 700*1e6:          "1 min",
		12*time.Minute + 10*time.Second:   "12 min",
		59*time.Minute + 40*time.Second:   "1 h 00 min",
		time.Hour:                         "1 h 00 min",
		25*time.Hour - 55*time.Minute:     "1 d 0 h 05 min",
		3*time.Hour + 59*time.Minute:      "3 h 59 min",
		day - time.Second:                 "1 d 0 h 00 min",
		2*day + 3*time.Hour + time.Second: "2 d 3 h 00 min",
	} {
		if got := DurationText(d); got != want {
			t.Errorf("DurationText(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestATimeOfAnotherDayHasItsDate(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.FixedZone("", 3600))
	for at, want := range map[time.Time]string{
		noon.Add(2 * time.Hour).UTC(): "14:00",
		noon.Add(24 * time.Hour):      "Thu 12:00",
		noon.Add(30 * 24 * time.Hour): "3 Apr 12:00",
		noon.Add(-13 * time.Hour):     "Tue 23:00",
	} {
		if got := ClockText(at, noon); got != want {
			t.Errorf("%v is written %q, want %q", at, got, want)
		}
	}
}
