package state

import (
	"slices"
	"time"
)

// maxCrashes is how many crashes are remembered.
const maxCrashes = 10

// AddCrash records that an agent ended without a stop, and returns how many did within
// the window before.
func (s *Store) AddCrash(at time.Time, window time.Duration) (recent int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := func(t time.Time) bool { return at.Sub(t) > window || t.After(at) } // a clock that was set back
	all := append(slices.DeleteFunc(slices.Clone(s.data.Crashes), old), at)
	s.data.Crashes = all[max(0, len(all)-maxCrashes):]
	return len(s.data.Crashes), s.writeLocked()
}

// ClearCrashes forgets the crashes: the agent was stopped.
func (s *Store) ClearCrashes() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.data.Crashes) == 0 {
		return nil
	}
	s.data.Crashes = nil
	return s.writeLocked()
}
