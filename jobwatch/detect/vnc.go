package detect

import (
	"cmp"
	"regexp"
	"strconv"
)

// vncBase is the port of display :0; display :N listens on the Nth after it.
const vncBase = 5900

// vncRules read the starters of VNC servers, which tell a display, and of noVNC,
// whose page a browser can open.
var vncRules = []rule{
	{needle: "desktop", read: readVNCDisplay},
	{needle: "vnc display", read: readVNCDisplay},
	{needle: "vnc server", read: readVNCDisplay},
	{app: appNoVNC, act: announces, needle: "/vnc", said: "noVNC's page", re: regexp.MustCompile(`(?P<url>https?://\S+/vnc(?:_lite|_auto)?\.html\S*)`)},
	{needle: "- listen on ", read: readWebsockify},
	{needle: "web server. web root", read: readWebRoot},
	{
		app: appNoVNC, act: announces, needle: "webserver and websockets proxy", path: "/vnc.html", said: "noVNC's web server",
		re: regexp.MustCompile(`Starting webserver and WebSockets proxy on port (?P<port>\d+)`),
	},
	{
		app: appVNC, act: announces, needle: "started vnc server on", said: "the VNC server named by the web portal",
		re: regexp.MustCompile(`Successfully started VNC server on ` + wherePattern),
	},
	{
		app: appVNC, act: announces, needle: "listening for vnc connections", said: "the VNC server's own line",
		re: regexp.MustCompile(`Listening for VNC connections on .*port (?P<port>\d+)`),
	},
	{
		app: appVNC, act: announces, needle: "vnc port", said: "the VNC port named by the job script",
		re: regexp.MustCompile(`(?i)local \(compute node\) VNC port is (?P<port>\d+)`),
	},
}

// vncDisplay matches where a starter tells the display it took:
//
//	New 'n003:1 (ann)' desktop is n003:1
//	New 'n003:1 (ann)' desktop at :1 on machine n003
//	New Xtigervnc server 'n003:1 (ann)' on port 5901 for display :1.
//	Desktop 'TurboVNC: n003:1 (ann)' started on display n003:1
//	got VNC display :1
var vncDisplay = regexp.MustCompile(`(?i)(?:desktop is|desktop at|started on display|the vnc desktop is:|got vnc display|for display)\s+(` + hostPattern + `)?:(\d{1,3})\b(?: on machine (` + hostPattern + `))?`)

func readVNCDisplay(r *reading, l logLine) {
	m := vncDisplay.FindStringSubmatch(l.text)
	if m == nil {
		return
	}
	display, err := strconv.Atoi(m[2])
	if err != nil {
		return
	}
	to := target{host: cmp.Or(m[1], m[3]), port: vncBase + display}
	r.ev.announce(sighting{at: l.at, app: appVNC, to: to, said: "the VNC server's display :" + m[2]})
}

// Websockify tells where it listens, and only then whether it also serves a page
// or merely passes a portal's websockets on:
//
//	WebSocket server settings:
//	  - Listen on :6080
//	  - Web server. Web root: /opt/noVNC
var websockify = regexp.MustCompile(`- Listen on (?P<host>` + hostPattern + `)?:(?P<port>\d+)`)

func readWebsockify(r *reading, l logLine) {
	if m := websockify.FindStringSubmatchIndex(l.text); m != nil {
		r.webSocket = sighting{at: l.at, app: appNoVNC, to: matchedTarget(websockify, l.text, m), said: "noVNC's web server"}
		r.webSocket.to.path = "/vnc.html"
	}
}

func readWebRoot(r *reading, l logLine) {
	if r.webSocket.to.port != 0 && l.at.line-r.webSocket.at.line <= nearby {
		r.ev.announce(r.webSocket)
	}
}
