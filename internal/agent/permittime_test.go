package agent

import (
	"testing"
	"time"

	"tunctl/configs"
)

func TestAPermissionLastsAnHourByTheClockOnTheWall(t *testing.T) {
	s := newSession(&Agent{limits: DefaultLimits()}, configs.Session{Name: "jupyter", Submit: "~/jupyter.sh"})
	r := &run{granted: make(chan struct{}, 1)}
	if r.permit.live(time.Now()) {
		t.Error("nobody permitted anything")
	}
	before := time.Now()
	s.grantLocked(r, "")
	end := r.permit.end()
	if d := end.Sub(before.Round(0)); d < time.Hour || d > time.Hour+time.Minute {
		t.Errorf("it lasts %v", d)
	}
	// Timers and monotonic times stand still while a laptop sleeps.
	if end != end.Round(0) {
		t.Errorf("%v is not of the wall clock", end)
	}
	if !r.permit.live(end.Add(-time.Second)) || r.permit.live(end) {
		t.Error("it does not end when its time is over")
	}
}

func TestWhatWasStartedByHandIsNeverPermittedToBeSubmitted(t *testing.T) {
	s := newSession(&Agent{limits: DefaultLimits()}, configs.Session{Name: "narval-7"})
	s.attached = true
	r := &run{granted: make(chan struct{}, 1)}
	s.grantLocked(r, "")
	if r.permit.live(time.Now()) {
		t.Error("a job may be submitted")
	}
}
