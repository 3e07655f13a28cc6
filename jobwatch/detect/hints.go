package detect

import (
	"regexp"
	"strings"
)

// hintRules read what a job script prints for the user: the command for a tunnel,
// or a sentence about where the server will be. It was printed before the server tried
// to bind, by a script that knows the name of its node.
var hintRules = []rule{
	{needle: "ssh", read: readTunnelCommand},
	{needle: "plink", read: readTunnelCommand},
	{act: hints, needle: "localforward", desc: "the job's LocalForward line", re: `(?i)\bLocalForward\s+\S+\s+` + wherePattern},
	{needle: "port", needsApp: true, read: readPortOnHost},
	{needle: "listen", needsApp: true, read: readHostPort},
	{needle: "running on", needsApp: true, read: readHostPort},
	{needle: "running at", needsApp: true, read: readWorkHostPort},
	{needle: "started", needsApp: true, read: readWorkHostPort},
	{needle: "available", needsApp: true, read: readWorkHostPort},
	{needle: "://", needsApp: true, read: readAppURL},
	{act: hints, needle: "tunnel port", desc: "an instruction printed by the job script", re: `(?i)tunnel port \d+ to ` + wherePattern},
	{needle: "login", read: readReversePort},
	{needle: "reverse", read: readReversePort},
}

// tunnelSpec matches each -L of an ssh command: bundled with other letters or not,
// with a bind address or not. The local port may be anything, also a placeholder: only
// the remote address counts.
var (
	sshCommand  = regexp.MustCompile(`\b(?:(?:auto)?ssh|plink|putty)(?:\.exe)?\s.*?-`)
	tunnelSpec  = regexp.MustCompile(`\s-[A-Za-z46]*L\s*=?\s*["']?(?:[^\s:"']*:)??[^\s:"']*:(?P<host>\[[0-9a-fA-F:]+\]|` + hostPattern + `):(?P<port>\d{2,5})\b`)
	reverseSpec = regexp.MustCompile(`\s-[A-Za-z46]*R\s*["']?(?:[^\s:"']*:)??(?P<port>\d{2,5}):` + hostPattern + `:(\d{2,5})\b`)
	jumpOption  = regexp.MustCompile(`\s-[A-Za-z46]*J\s`)
)

func readTunnelCommand(r *reader, l logLine) {
	if !sshCommand.MatchString(l.text) {
		return
	}
	s := statement{at: l.at, app: r.appNear(l), desc: "the job's ssh command"}
	for _, m := range tunnelSpec.FindAllStringSubmatchIndex(l.text, -1) {
		s.addr = matchedAddress(tunnelSpec, l.text, m)
		switch s.addr.kind() {
		case namedHost:
			r.ev.addHint(s)
		case loopbackHost:
			r.readLoopbackHint(s, l)
		}
	}
	if m := reverseSpec.FindStringSubmatchIndex(l.text); m != nil {
		s.addr, s.desc = matchedAddress(reverseSpec, l.text, m), "the job's reverse tunnel"
		s.leadsTo = parsePort(l.text[m[4]:m[5]])
		r.ev.addReverse(s)
	}
}

// readLoopbackHint reads `ssh -L 8888:localhost:8888 HOST`. HOST is the node only if it
// is reached through a jump.
func (r *reader) readLoopbackHint(s statement, l logLine) {
	node := innerHost(l.text)
	if node == "" {
		r.ev.notes.ignored(s, "a tunnel to a loopback address names no node")
		return
	}
	s.addr.host, s.addr.onLoopback = node, true
	if s.addr.kind() == namedHost {
		r.ev.addHint(s)
	}
}

// innerHost is the last host of a command that goes through another one:
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

// Sentences about where a server will be. The line must name an app, and the host must
// look like the name of a node: "on port 8888 on this machine" is no hint.
var (
	portOnHost = []*regexp.Regexp{
		regexp.MustCompile(`(?i)\bport(?: number)?[\s:=#]+(?P<port>\d{4,5})\b[^\w]{0,3}(?:\s?\bon\b|@|\bat\b)\s*(?:the |compute |node |host |server )*(?P<host>` + hostPattern + `)`),
		regexp.MustCompile(`(?i)\b(?:on|at)\s+(?:the |compute |node |host |server )*(?P<host>` + hostPattern + `)[\s,:;(]+(?:on |at |using |with |and )?(?:the )?port[\s:=#]+(?P<port>\d{4,5})\b`),
	}
	hostPort   = regexp.MustCompile(`(?i)\b(?:listen\w*|running|started|starting|launch\w*|serving|available)\b.{0,30}?\b(?:on|at)[:\s]+` + wherePattern)
	notRunning = regexp.MustCompile(`(?i)refused|failed|failure|error|exception|cannot|could not|unable|in use|timed? ?out|waiting for|retry|no such|denied`)
)

func readPortOnHost(r *reader, l logLine) { r.readProse(l, looksLikeNode, portOnHost...) }

func readHostPort(r *reader, l logLine) {
	r.readProse(l, func(host string) bool { return strings.Trim(host, "0123456789") != "" }, hostPort) // not a time of day
}

// readWorkHostPort reads the same in words that are also used for dashboards on other
// machines: only apps to work in count.
func readWorkHostPort(r *reader, l logLine) {
	if isWorkApp(l.app) {
		readHostPort(r, l)
	}
}

// readProse reads a sentence about an app's host and port, by the first of these patterns.
func (r *reader) readProse(l logLine, isHost func(string) bool, patterns ...*regexp.Regexp) {
	if isHub(l.text) || notRunning.MatchString(l.text) {
		return
	}
	for _, re := range patterns {
		if addr, ok := l.match(re); ok && addr.kind() == namedHost && isHost(addr.host) {
			r.ev.addHint(statement{at: l.at, app: l.app, desc: "a line printed by the job script", addr: addr})
			return
		}
	}
}

// looksLikeNode reports whether a word in a sentence can be the name of a host.
func looksLikeNode(host string) bool { return strings.ContainsAny(host, "0123456789.") }

// appURL matches a sentence that a URL follows.
var appURL = regexp.MustCompile(`(?i)\b(?:running|available|listening|accessible|reachable|started|access it|url)\b[^/]{0,40}$`)

// readAppURL reads a sentence such as "RStudio is now running at http://n003:8787".
// Training jobs print the same about dashboards on other machines: only apps to work
// in count, and only with a port of their own.
func readAppURL(r *reader, l logLine) {
	if !isWorkApp(l.app) || isHub(l.text) {
		return
	}
	urls := findURLs(l.text)
	if len(urls) == 0 {
		return
	}
	u := urls[0]
	if u.kind() != namedHost || u.port == 80 || u.port == 443 || !appURL.MatchString(l.text[:u.start]) || notRunning.MatchString(l.text) {
		return
	}
	r.ev.addHint(statement{at: l.at, app: l.app, desc: "a line printed by the job script", addr: u.address})
}

// reversePort matches what jobs print that open a port on the login node, as TACC's
// scripts do: "got login node VNC port 18455".
var reversePort = regexp.MustCompile(`(?i)\blogin[ -](?:node|host)s?\b(?:'s)?(?: \w+){0,2} port(?: is|:)? (?P<port>\d{4,5})\b|\breverse (?:tunnel|port)\w*\b.{0,30}\bport (?P<port2>\d{4,5})\b`)

func readReversePort(r *reader, l logLine) {
	m := reversePort.FindStringSubmatch(l.text)
	if m == nil {
		return
	}
	if port := parsePort(m[1] + m[2]); port > 0 && !notRunning.MatchString(l.text) {
		r.ev.addReverse(statement{at: l.at, app: r.appNear(l), desc: "the reverse tunnel named by the job script", addr: address{port: port}})
	}
}
