package submit

import (
	"context"
	"strconv"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// NodeHours are the node-hours that a job may take, as they count for an assistant. A job of several
// nodes counts for each of them, also if it does not use them whole, and an array for each of its jobs.
func (p Plan) NodeHours(ctx context.Context, jobs *jobwatch.Watcher, order jobwatch.Submission) (float64, error) {
	size, err := p.Size(ctx, jobs, order)
	session := p.source.Session.Name
	switch {
	case err != nil:
		return 0, err
	case size.Time <= 0:
		return 0, api.Errorf(api.CodeSubmit, "nothing was submitted: the job does not say how long it runs, so it cannot be compared with what assistants may start").
			WithHint("set a time limit in the job's script, or start it yourself: `tunctl up %s`", session)
	case size.Nodes <= 0:
		return 0, api.Errorf(api.CodeSubmit, "nothing was submitted: how many nodes the job takes cannot be read from its options, so it cannot be compared with what assistants may start").
			WithHint("say it as a number (--nodes=1), or start it yourself: `tunctl up %s`", session)
	}
	return size.Time.Hours() * float64(size.Nodes), nil
}

// TooManyHours is the error for a job that takes more than assistants may still start.
func TooManyHours(hours, left, limit float64, session string) error {
	return api.Errorf(api.CodeSubmit, "nothing was submitted: the job asks for %s node-hours, and of the %s that assistants may start a day %s are left",
		HoursText(hours), HoursText(limit), HoursText(left)).
		WithHint("start it yourself: `tunctl up %s`", session)
}

// HoursText are node-hours in words.
func HoursText(hours float64) string { return strconv.FormatFloat(max(0, hours), 'f', -1, 64) }
