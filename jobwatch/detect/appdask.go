package detect

import (
	"regexp"
	"strings"
)

// Dask's scheduler tells its own address and its dashboard's, the latter often as
// a bare port:
//
//	distributed.scheduler - INFO -   Scheduler at:   tcp://10.201.0.91:8786
//	distributed.scheduler - INFO -   dashboard at:                     :8787
var (
	daskScheduler = regexp.MustCompile(`Scheduler at:\s+\w+://(?P<host>` + hostPattern + `):\d+`)
	daskDashboard = regexp.MustCompile(`(?:dashboard|bokeh) at:\s+(?:(?P<scheme>https?)://)?(?P<host>` + hostPattern + `)?:(?P<port>\d+)(?P<path>/\S+)?`)
)

func readDaskScheduler(r *reading, l logLine) {
	if m := daskScheduler.FindStringSubmatch(l.text); m != nil {
		r.daskHost = strings.Clone(m[1])
	}
}

func readDaskDashboard(r *reading, l logLine) {
	m := daskDashboard.FindStringSubmatchIndex(l.text)
	if m == nil {
		return
	}
	s := sighting{at: l.at, app: appDask, to: matchedTarget(daskDashboard, l.text, m), said: ownURL}
	if s.to.host == "" {
		s.to.host = r.daskHost
	}
	if s.to.path == "" {
		s.to.path = "/status"
	}
	r.ev.announce(s)
}
