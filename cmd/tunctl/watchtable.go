package main

import (
	"time"

	"tunctl/internal/show"
	"tunctl/internal/term"
	"tunctl/internal/watchui"
)

// watchTable has the rows of a view of `tunctl status --watch`.
func watchTable(view watchui.View, d watchui.Data, now time.Time) *term.Table {
	switch view {
	case watchui.Jobs:
		return show.Jobs(d.Jobs, true, now)
	case watchui.Use:
		return show.Use(d.Sessions, d.Usage, now)
	case watchui.Hosts:
		return show.Hosts(d.Hosts, nil, now)
	}
	return show.Sessions(d.Sessions, now)
}

// watchDetails is all that is known about the only session, job or host.
func watchDetails(l term.Layout, d watchui.Data, now time.Time) string {
	switch {
	case len(d.Sessions) == 1:
		s := d.Sessions[0]
		if list := d.Usage[s.Name]; len(list) > 0 {
			s.Usage = &list[len(list)-1]
		}
		return show.SessionPage(l, s, now)
	case len(d.Jobs) == 1:
		return show.JobPage(l, d.Jobs[0], now)
	case len(d.Hosts) == 1:
		return show.HostPage(l, d.Hosts[0], now)
	}
	return ""
}
