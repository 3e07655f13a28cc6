package detect

import (
	"cmp"
	"regexp"
	"strconv"
)

// vncBase is the port of display :0; display :N listens on the Nth after it.
const vncBase = 5900

// vncRules are of VNC servers, whose starters print a display, and of noVNC, whose page
// a browser can open.
var vncRules = []rule{
	{needle: "desktop", read: readVNCDisplay},
	{needle: "vnc display", read: readVNCDisplay},
	{needle: "vnc server", read: readVNCDisplay},
	{app: appNoVNC, act: announces, needle: "/vnc", desc: "noVNC's page", re: lazyPattern(`(?P<url>https?://\S+/vnc(?:_lite|_auto)?\.html\S*)`)},
	{needle: "- listen on ", read: readWebsockify},
	{needle: "web server. web root", read: readWebRoot},
	{
		app: appNoVNC, act: announces, needle: "webserver and websockets proxy", path: "/vnc.html", desc: "noVNC's web server",
		re: lazyPattern(`Starting webserver and WebSockets proxy on port (?P<port>\d+)`),
	},
	{
		app: appVNC, act: announces, needle: "started vnc server on", desc: "the VNC server named by the web portal",
		re: lazyPattern(`Successfully started VNC server on ` + wherePattern),
	},
	{
		app: appVNC, act: announces, needle: "listening for vnc connections", desc: "the VNC server's own line",
		re: lazyPattern(`Listening for VNC connections on .*port (?P<port>\d+)`),
	},
	{
		app: appVNC, act: announces, needle: "vnc port", desc: "the VNC port named by the job script",
		re: lazyPattern(`(?i)local \(compute node\) VNC port is (?P<port>\d+)`),
	},
}

// vncDisplay matches how starters print the display:
//
//	New 'n003:1 (ann)' desktop is n003:1
//	New 'n003:1 (ann)' desktop at :1 on machine n003
//	New Xtigervnc server 'n003:1 (ann)' on port 5901 for display :1.
//	Desktop 'TurboVNC: n003:1 (ann)' started on display n003:1
//	got VNC display :1
var vncDisplay = regexp.MustCompile(`(?i)(?:desktop is|desktop at|started on display|the vnc desktop is:|got vnc display|for display)\s+(` + hostPattern + `)?:(\d{1,3})\b(?: on machine (` + hostPattern + `))?`)

func readVNCDisplay(r *reader, l logLine) {
	m := vncDisplay.FindStringSubmatch(l.text)
	if m == nil {
		return
	}
	display, err := strconv.Atoi(m[2])
	if err != nil {
		return
	}
	addr := address{host: cmp.Or(m[1], m[3]), port: vncBase + display}
	r.ev.addOwn(statement{at: l.at, app: appVNC, addr: addr, desc: "the VNC server's display :" + m[2]})
}

// Websockify first prints where it listens, and then whether it also serves a page or
// only relays the websockets of a portal:
//
//	WebSocket server settings:
//	  - Listen on :6080
//	  - Web server. Web root: /opt/noVNC
var websockify = regexp.MustCompile(`- Listen on (?P<host>` + hostPattern + `)?:(?P<port>\d+)`)

func readWebsockify(r *reader, l logLine) {
	if addr, ok := l.match(websockify); ok {
		addr.path = "/vnc.html"
		r.websockify = statement{at: l.at, app: appNoVNC, addr: addr, desc: "noVNC's web server"}
	}
}

func readWebRoot(r *reader, l logLine) {
	if r.websockify.addr.port != 0 && l.at.line-r.websockify.at.line <= nearby {
		r.ev.addOwn(r.websockify)
	}
}
