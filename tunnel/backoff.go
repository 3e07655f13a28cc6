package tunnel

import (
	"math/rand/v2"
	"time"
)

// backoff is the wait before try number failures+1: it doubles from least to most,
// less up to a fifth at random, so that many laptops do not return at one moment.
func backoff(failures int, least, most time.Duration) time.Duration {
	wait := most
	if shift := failures - 1; shift < 30 {
		wait = min(most, least<<max(shift, 0))
	}
	return wait - rand.N(wait/5+1) //nolint:gosec // jitter is no secret
}
