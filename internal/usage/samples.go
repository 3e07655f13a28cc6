package usage

import (
	"slices"
	"time"

	"tunctl/internal/api"
)

// kept is how long what a job used is kept, and spacing how far apart at least
// the samples are that are kept.
const (
	kept    = time.Hour
	spacing = 20 * time.Second
)

// addSample adds a sample to those of the last hour. It replaces the last one if that is too close
// to the one before.
func addSample(list []api.Usage, u api.Usage) []api.Usage {
	if n := len(list); n > 1 && list[n-1].Time.Sub(list[n-2].Time) < spacing {
		list = list[:n-1]
	}
	list = append(list, u)
	return slices.DeleteFunc(list, func(x api.Usage) bool { return u.Time.Sub(x.Time) >= kept })
}
