package agent

import (
	"fmt"
	"time"

	"tunctl/internal/api"
)

// certificates tells once of each login certificate whose end is near. Hosts change
// one at a time, so it needs no lock.
type certificates struct{ told map[string]time.Time }

// notice is what a host's change gives to tell; nil for nothing new.
func (c *certificates) notice(h api.Host, now time.Time) *api.Notice {
	ends := h.CertificateEnds
	if h.State != api.HostUp || ends.IsZero() || c.told[h.Alias].Equal(ends) {
		return nil
	}
	if c.told == nil {
		c.told = map[string]time.Time{}
	}
	c.told[h.Alias] = ends
	return &api.Notice{
		Kind: api.NoticeNeedsLogin, Host: h.Alias,
		Text: fmt.Sprintf("your certificate for %s expires soon: after %s, a lost connection needs you to log in again with a new certificate", h.Alias, clock(ends, now)),
	}
}
