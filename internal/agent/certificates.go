package agent

import (
	"fmt"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel"
)

// certificates reports each login certificate that expires soon, once. Hosts change one
// at a time, so it needs no lock.
type certificates struct{ reported map[string]time.Time }

// notice is the notice for a host that has changed; nil if there is nothing to report.
func (c *certificates) notice(h api.Host, now time.Time) *api.Notice {
	ends := h.CertificateEnds
	if h.State != api.HostUp || ends.IsZero() || ends.Sub(now) > tunnel.CertificateWarning || c.reported[h.Alias].Equal(ends) {
		return nil
	}
	if c.reported == nil {
		c.reported = map[string]time.Time{}
	}
	c.reported[h.Alias] = ends
	return &api.Notice{
		Kind: api.NoticeNeedsLogin, Host: h.Alias,
		Text: fmt.Sprintf("your certificate for %s expires soon: after %s, a lost connection needs you to log in again with a new certificate", h.Alias, api.ClockText(ends, now)),
	}
}
