package state

import (
	"path/filepath"
	"testing"
	"time"
)

func TestCrashesAreCountedWithinTheirWindowUntilACleanStop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	noon := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	add := func(at time.Time, want int) {
		t.Helper()
		s, err := Open(path) // another agent each time
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.AddCrash(at, 10*time.Minute); n != want || err != nil {
			t.Errorf("at %v: %d crashes, %v; want %d", at.Sub(noon), n, err, want)
		}
	}
	add(noon, 1)
	add(noon.Add(9*time.Minute), 2)
	add(noon.Add(18*time.Minute), 2) // the first is too old
	add(noon.Add(-time.Hour), 1)     // the clock was set back
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ClearCrashes(); err != nil {
		t.Fatal(err)
	}
	add(noon.Add(-59*time.Minute), 1)
	for i := range 3 * maxCrashes {
		add(noon.Add(-59*time.Minute+time.Duration(i+1)*time.Second), min(i+2, maxCrashes))
	}
}
