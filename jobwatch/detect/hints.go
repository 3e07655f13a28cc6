package detect

import (
	"regexp"
	"strings"
)

// hintRules read what a job's script tells the person: the command for a tunnel,
// or in its own words where the server will be. It was written before the server
// tried to bind, by somebody who knew the node's name.
var hintRules = []rule{
	{needle: "ssh", read: readTunnelCommand},
	{needle: "plink", read: readTunnelCommand},
	{needle: "localforward", read: readLocalForward},
	{needle: "port", named: true, read: readPortOnHost},
	{needle: "listen", named: true, read: readHostPort},
	{needle: "running on", named: true, read: readHostPort},
	{needle: "running at", named: true, read: readWorkHostPort},
	{needle: "started", named: true, read: readWorkHostPort},
	{needle: "available", named: true, read: readWorkHostPort},
	{needle: "://", named: true, read: readAppURL},
	{needle: "tunnel port", read: readTunnelProse},
	{needle: "login", read: readReversePort},
	{needle: "reverse", read: readReversePort},
}

// tunnelCommand matches each -L of an ssh command: bundled with other letters or
// not, with a bind address or not. The local port may be anything, also a
// placeholder; what counts is the far side.
var (
	sshCommand    = regexp.MustCompile(`\b(?:(?:auto)?ssh|plink|putty)(?:\.exe)?\s.*?-`)
	tunnelSpec    = regexp.MustCompile(`\s-[A-Za-z46]*L\s*=?\s*["']?(?:[^\s:"']*:)??[^\s:"']*:(?P<host>\[[0-9a-fA-F:]+\]|` + hostPattern + `):(?P<port>\d{2,5})\b`)
	reverseSpec   = regexp.MustCompile(`\s-[A-Za-z46]*R\s*["']?(?:[^\s:"']*:)??(?P<port>\d{2,5}):` + hostPattern + `:(\d{2,5})\b`)
	jumpOption    = regexp.MustCompile(`\s-[A-Za-z46]*J\s`)
	forwardConfig = regexp.MustCompile(`(?i)\bLocalForward\s+\S+\s+` + wherePattern)
)

func readTunnelCommand(r *reading, l logLine) {
	if !sshCommand.MatchString(l.text) {
		return
	}
	s := sighting{at: l.at, app: r.about(l), said: "the job's ssh command"}
	for _, m := range tunnelSpec.FindAllStringSubmatchIndex(l.text, -1) {
		s.to = matchedTarget(tunnelSpec, l.text, m)
		s.to.host = unwrapHost(s.to.host)
		switch s.to.place() {
		case named:
			r.ev.hint(s)
		case loopback:
			r.readLoopbackHint(s, l)
		}
	}
	if m := reverseSpec.FindStringSubmatchIndex(l.text); m != nil {
		s.to, s.said = matchedTarget(reverseSpec, l.text, m), "the job's reverse tunnel"
		s.into, _ = parsePort(l.text[m[4]:m[5]])
		r.ev.reverse(s)
	}
}

// readLoopbackHint takes `ssh -L 8888:localhost:8888 HOST`. It does not name the
// node unless HOST is reached through a jump: then HOST is the node.
func (r *reading) readLoopbackHint(s sighting, l logLine) {
	node := innerHost(l.text)
	if node == "" {
		r.ev.notes.pass(s, "a tunnel to a loopback address names no node")
		return
	}
	s.to.host, s.to.inner = node, true
	if s.to.place() == named {
		r.ev.hint(s)
	}
}

// innerHost is the host at the end of a command that goes through another one:
// `ssh -J login node`, or `ssh … login ssh … node`. It is "" for a plain ssh.
func innerHost(text string) string {
	last := strings.LastIndex(text, "ssh ")
	if !jumpOption.MatchString(text) && strings.Index(text, "ssh ") == last {
		return ""
	}
	words := strings.Fields(text[last:])[1:]
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], `"'`)
		if !strings.HasPrefix(word, "-") {
			return word[strings.LastIndexByte(word, '@')+1:]
		}
		if len(word) > 1 && strings.ContainsRune("BbcDEeFIiJLlmOopQRSWw", rune(word[len(word)-1])) && !strings.Contains(word, ":") {
			i++ // the option's own argument
		}
	}
	return ""
}

func readLocalForward(r *reading, l logLine) {
	if m := forwardConfig.FindStringSubmatchIndex(l.text); m != nil {
		s := sighting{at: l.at, app: r.about(l), said: "the job's LocalForward line", to: matchedTarget(forwardConfig, l.text, m)}
		if s.to.place() == named {
			r.ev.hint(s)
		}
	}
}

// Prose about where a server will be. The line must name an app, and the host must
// look like a node's name: "on port 8888 on this machine" is no hint.
var (
	portOnHost = []*regexp.Regexp{
		regexp.MustCompile(`(?i)\bport(?: number)?[\s:=#]+(?P<port>\d{4,5})\b[^\w]{0,3}(?:\s?\bon\b|@|\bat\b)\s*(?:the |compute |node |host |server )*(?P<host>` + hostPattern + `)`),
		regexp.MustCompile(`(?i)\b(?:on|at)\s+(?:the |compute |node |host |server )*(?P<host>` + hostPattern + `)[\s,:;(]+(?:on |at |using |with |and )?(?:the )?port[\s:=#]+(?P<port>\d{4,5})\b`),
	}
	hostPort    = regexp.MustCompile(`(?i)\b(?:listen\w*|running|started|starting|launch\w*|serving|available)\b.{0,30}?\b(?:on|at)[:\s]+` + wherePattern)
	tunnelProse = regexp.MustCompile(`(?i)tunnel port \d+ to ` + wherePattern)
	notYet      = regexp.MustCompile(`(?i)refused|failed|failure|error|exception|cannot|could not|unable|in use|timed? ?out|waiting for|retry|no such|denied`)
)

func readPortOnHost(r *reading, l logLine) {
	for _, re := range portOnHost {
		if r.readProse(re, l, looksLikeNode) {
			return
		}
	}
}

func readHostPort(r *reading, l logLine) {
	r.readProse(hostPort, l, func(host string) bool { return strings.Trim(host, "0123456789") != "" }) // not a time of day
}

// readWorkHostPort takes the same in words that are also used of dashboards which run
// somewhere else: only apps to work in count.
func readWorkHostPort(r *reading, l logLine) {
	if appRank(l.app) <= appRank(appVNC) {
		readHostPort(r, l)
	}
}

// readProse takes a sentence about an app's host and port.
func (r *reading) readProse(re *regexp.Regexp, l logLine, isHost func(string) bool) bool {
	if isHub(l.text) {
		return false
	}
	m := re.FindStringSubmatchIndex(l.text)
	if m == nil || notYet.MatchString(l.text) {
		return false
	}
	s := sighting{at: l.at, app: l.app, said: "a line printed by the job script", to: matchedTarget(re, l.text, m)}
	if s.to.place() != named || !isHost(s.to.host) {
		return false
	}
	r.ev.hint(s)
	return true
}

// looksLikeNode reports whether a word in a sentence is a host's name.
func looksLikeNode(host string) bool { return strings.ContainsAny(host, "0123456789.") }

// appURL matches a sentence that leads to a URL.
var appURL = regexp.MustCompile(`(?i)\b(?:running|available|listening|accessible|reachable|started|access it|url)\b[^/]{0,40}$`)

// readAppURL takes a sentence such as "RStudio is now running at http://n003:8787".
// A training job speaks of its dashboards' servers in the same words, wherever they
// are: only apps to work in count, and only with a port of their own.
func readAppURL(r *reading, l logLine) {
	if appRank(l.app) > appRank(appVNC) || isHub(l.text) {
		return
	}
	urls := findURLs(l.text)
	if len(urls) == 0 {
		return
	}
	u := urls[0]
	if u.place() != named || u.port == 80 || u.port == 443 || !appURL.MatchString(l.text[:u.start]) || notYet.MatchString(l.text) {
		return
	}
	r.ev.hint(sighting{at: l.at, app: l.app, said: "a line printed by the job script", to: u.target})
}

func readTunnelProse(r *reading, l logLine) {
	if m := tunnelProse.FindStringSubmatchIndex(l.text); m != nil {
		r.ev.hint(sighting{at: l.at, app: r.about(l), said: "an instruction printed by the job script", to: matchedTarget(tunnelProse, l.text, m)})
	}
}

// reversePort matches the words of sites whose jobs open a port on the login node,
// after TACC's scripts: "got login node VNC port 18455".
var reversePort = regexp.MustCompile(`(?i)\blogin[ -](?:node|host)s?\b(?:'s)?(?: \w+){0,2} port(?: is|:)? (?P<port>\d{4,5})\b|\breverse (?:tunnel|port)\w*\b.{0,30}\bport (?P<port2>\d{4,5})\b`)

func readReversePort(r *reading, l logLine) {
	m := reversePort.FindStringSubmatch(l.text)
	if m == nil {
		return
	}
	port, ok := parsePort(m[1] + m[2])
	if ok && !notYet.MatchString(l.text) {
		r.ev.reverse(sighting{at: l.at, app: r.about(l), said: "the reverse tunnel named by the job script", to: target{port: port}})
	}
}
