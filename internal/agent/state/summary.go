package state

import (
	"cmp"
	"slices"
	"time"

	"tunctl/internal/api"
)

// Summarize sums up runs by week, session and host: the newest week first, in a week by
// session. A job counts in the week in which it ended.
func Summarize(runs []api.Run) []api.WeekSummary {
	type key struct {
		week, session, host string
		unit                api.TimeUnit
	}
	byKey := map[key]*api.WeekSummary{}
	weeks := []api.WeekSummary{}
	for i := range runs {
		r := &runs[i]
		unit, factor := api.JobHours, int64(1)
		if r.GPUs > 0 {
			unit, factor = api.GPUHours, int64(r.GPUs)
		}
		k := key{weekOf(r), r.Session, r.Host, unit}
		sum := byKey[k]
		if sum == nil {
			sum = &api.WeekSummary{Week: k.week, Session: k.session, Host: k.host, Unit: unit}
			byKey[k] = sum
		}
		ran, _ := r.Ran()
		waited, _ := r.Waited()
		sum.Jobs++
		sum.Asked += r.Asked * factor
		sum.Used += seconds(ran) * factor
		sum.Idle += min(r.Idle, seconds(ran)) * factor
		sum.Waited += seconds(waited)
	}
	for _, sum := range byKey {
		weeks = append(weeks, *sum)
	}
	slices.SortFunc(weeks, func(a, b api.WeekSummary) int {
		return cmp.Or(cmp.Compare(b.Week, a.Week), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Unit, b.Unit))
	})
	return weeks
}

func seconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

// weekOf is the Monday of the week in which a run ended.
func weekOf(r *api.Run) string {
	end := r.Job.End
	if end.IsZero() {
		end = r.Noted
	}
	end = end.Local()
	sinceMonday := (int(end.Weekday()) + 6) % 7
	return end.AddDate(0, 0, -sinceMonday).Format(time.DateOnly)
}
