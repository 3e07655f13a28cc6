package forward

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
)

// counters count what one forward has relayed.
type counters struct {
	conns    atomic.Int64
	total    atomic.Int64
	bytesIn  atomic.Int64 // from beyond the host to here
	bytesOut atomic.Int64
	refused  atomic.Int64
	direct   atomic.Int64
	lastUsed atomic.Int64 // Unix nanoseconds; 0 is never
	rtt      atomic.Int64 // nanoseconds; 0 is not known

	failure atomic.Pointer[failure] // of the last connection; nil: it reached the target
}

// failure is why a connection did not reach the target.
type failure struct {
	at  time.Time
	err error
}

// connOpened counts a client's connection; closed counts its end.
func (c *counters) connOpened() (closed func()) {
	c.conns.Add(1)
	c.total.Add(1)
	c.touch()
	return func() {
		c.conns.Add(-1)
		c.touch()
	}
}

func (c *counters) received(n int) {
	c.bytesIn.Add(int64(n))
	c.touch()
}

func (c *counters) sent(n int) {
	c.bytesOut.Add(int64(n))
	c.touch()
}

func (c *counters) touch() { c.lastUsed.Store(time.Now().UnixNano()) }

// dialed averages how long it takes to connect to the target, for people.
func (c *counters) dialed(took time.Duration) {
	if was := time.Duration(c.rtt.Load()); was > 0 {
		took = (3*was + took) / 4
	}
	c.rtt.Store(int64(took))
}

// failed notes why a connection did not reach the target.
func (c *counters) failed(err error) {
	c.failure.Store(&failure{time.Now(), err})
}

// fill sets the counters of a forward's status, and an error if the last connection failed.
func (c *counters) fill(f *api.Forward) {
	f.Conns = c.conns.Load()
	f.Total = c.total.Load()
	f.BytesIn = c.bytesIn.Load()
	f.BytesOut = c.bytesOut.Load()
	f.Refused = c.refused.Load()
	f.Direct = c.direct.Load()
	if at := c.lastUsed.Load(); at != 0 {
		f.LastUsed = time.Unix(0, at)
	}
	if last := c.failure.Load(); last != nil && f.Error == "" {
		why, _, _ := strings.Cut(last.err.Error(), "\n")
		f.Error = fmt.Sprintf("the last connection, at %s, failed: %s", api.ClockText(last.at, time.Now()), why)
	}
	rtt := time.Duration(c.rtt.Load()).Round(100 * time.Microsecond)
	f.RTTMs = float64(rtt) / float64(time.Millisecond)
}
