package detect

import "regexp"

// builtinJobRules read the line by which the jobs that come with tunctl announce their server,
// before it starts:
//
//	tunctl: novnc will be at http://n003:12345/vnc.html (password in /home/ann/.tunctl/job.7/server.json)
//	tunctl: tensorboard will be at http://127.0.0.1:12345/tensorboard/
//
// The page asks for a password only if the line names a file.
var builtinJobRules = []rule{{needle: "tunctl: ", read: readBuiltinJob}}

var builtinJob = regexp.MustCompile(`\btunctl: ([a-z-]+) will be at (?P<url>http://\S+)(?: \(password in (/.*/server\.json)\))?\s*$`)

func readBuiltinJob(r *reader, l logLine) {
	m := builtinJob.FindStringSubmatch(l.text)
	if m == nil || appRank(m[1]) < 0 {
		return
	}
	addr, _ := l.match(builtinJob)
	app, file := appsByRank[appRank(m[1])], m[3]
	s := statement{at: l.at, app: app, addr: addr, desc: "the job's announcement", open: file == ""}
	if srv := r.ev.servers[app]; srv != nil && srv.ended == nil && len(srv.own) > 0 && srv.own[0].addr.port != addr.port {
		r.ev.addEnd(statement{at: l.at, app: app, desc: "the job starts the server on another port"})
	}
	r.ev.addOwn(s)
	if file != "" {
		r.ev.setRuntimeFile(app, file, l.at)
	}
}
