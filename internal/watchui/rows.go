package watchui

import (
	"time"

	"tunctl/internal/show"
	"tunctl/internal/term"
)

// table has the rows of a view, in the order of its data.
func table(view viewKind, d listed, now time.Time) *term.Table {
	switch view {
	case jobsView:
		return show.Jobs(d.jobs, true, now)
	case useView:
		return show.Use(d.sessions, d.usage, now)
	case hostsView:
		return show.Hosts(d.hosts, nil, now)
	}
	return show.Sessions(d.sessions, now)
}

// details is all that is known about the only session, job or host.
func details(l term.Layout, d listed, now time.Time) string {
	switch {
	case len(d.sessions) == 1:
		s := d.sessions[0]
		if list := d.usage[s.Name]; len(list) > 0 {
			s.Usage = &list[len(list)-1]
		}
		return show.SessionPage(l, s, now)
	case len(d.jobs) == 1:
		return show.JobPage(l, d.jobs[0], now)
	case len(d.hosts) == 1:
		return show.HostPage(l, d.hosts[0], now)
	}
	return ""
}
