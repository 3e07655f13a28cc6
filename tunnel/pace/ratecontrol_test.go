package pace

import (
	"testing"
	"time"
)

// What of a file waits to be read when the last of it has come is not held back for the link.
func TestTheRateGrowsWhenLessArrivesThanIsRead(t *testing.T) {
	const speed, step = 10e6, 50 * time.Millisecond
	now := time.Now()
	c := &rateControl{base: 20 * time.Millisecond, phase: pacing, rate: speed, gain: 1, since: now, last: now, filled: now, looked: now, drained: now}
	measure := func(part float64, queue time.Duration) {
		now = now.Add(step)
		moved := int64(part * speed * step.Seconds())
		c.measured(measurement{at: now, rtt: 20*time.Millisecond + queue, answered: true, moved: moved, took: step, waited: true})
	}
	for range 20 {
		measure(1, 5*time.Millisecond)
	}
	before := c.rate
	for range 4 {
		measure(0.4, 0)
	}
	if c.phase != pacing || c.rate < 3*before {
		t.Errorf("phase %d, %.1f → %.1f MB/s", c.phase, before/1e6, c.rate/1e6)
	}
}
