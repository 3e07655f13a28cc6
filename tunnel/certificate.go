package tunnel

import (
	"fmt"
	"slices"
	"time"
)

// endingSoon is when a certificate's end is worth a warning.
const endingSoon = 30 * time.Minute

// endingTimer rings when the end of a certificate comes near; never without one.
func endingTimer(ends time.Time) *time.Timer {
	if ends.IsZero() {
		never := time.NewTimer(time.Hour)
		never.Stop()
		return never
	}
	return time.NewTimer(time.Until(ends.Add(-endingSoon)))
}

// certificateEnds warns that the connection outlives its certificate: it stays, but
// cannot be made again.
func (h *Host) certificateEnds(at time.Time) {
	text := fmt.Sprintf("your certificate expires at %s; after that, a lost connection needs a new one", at.Format(time.TimeOnly))
	h.log.Warn("certificate ends soon", "at", at)
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.view.Warnings, text) {
		return
	}
	h.view.Warnings = append(slices.Clip(h.view.Warnings), text)
	h.view.CertificateEnds = at
	h.publishLocked()
}
