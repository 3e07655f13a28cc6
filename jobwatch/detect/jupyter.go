package detect

import (
	"regexp"
	"strings"
)

// Jupyter prints a header and one or more URLs, each on a line with or without the
// logger's tag, and all of it again at the end of its start:
//
//	[I 2024-05-02 10:11:12.123 ServerApp] Jupyter Server 2.14.2 is running at:
//	[I 2024-05-02 10:11:12.123 ServerApp] http://n003:8888/lab?token=…
//	[I 2024-05-02 10:11:12.123 ServerApp]     http://127.0.0.1:8888/lab?token=…
//	    To access the server, open this file in a browser:
//	        file:///home/ann/.local/share/jupyter/runtime/jpserver-12-open.html
//	    Or copy and paste one of these URLs:
//	        http://n003:8888/lab?token=…
//
// Versions differ in all of it, so the place of a URL decides: alone on a line of
// Jupyter's logger, or alone on a line within such a block.

// jupyterTag matches the tag of Jupyter's logger, whose last word is the program.
// JupyterHub itself logs as "JupyterHub", Optuna with no program at all.
var jupyterTag = regexp.MustCompile(`\b\w*(?:NotebookApp|LabApp|ServerApp|LabHubApp|SingleUser\w*|ExtensionApp)\b[^\[\]]*\]`)

const (
	jupyterBlock = "jupyter URLs" // marks a line that URLs follow
	ownURL       = "the server's own URL"
	blockLines   = 8
)

var jupyterRules = []rule{
	{needle: "is running at", read: readJupyterHeader},
	{needle: "copy and paste", read: markJupyterBlock},
	{needle: "copy/paste", read: markJupyterBlock},
	{needle: "currently running servers", read: markJupyterBlock},
	{needle: "://", read: readJupyterURLs},
	{app: appJupyter, act: links, needle: "?token=", desc: "a link with a token", re: bareLink},
	{needle: "token:", read: readJupyterToken},
	{needle: "token is", read: readJupyterToken},
	{needle: "with token", read: readJupyterToken},
	{needle: "token=", read: readJupyterToken},
	{needle: "server-", read: readRuntimeFile},
	{app: appJupyter, act: skipsPort, needle: "already in use", desc: "a port that is in use", re: `(?i)\bport (?P<port>\d+) is already in use`},
}

// jupyterHeader matches the header, in all versions back to IPython's.
var jupyterHeader = regexp.MustCompile(`(?i)\b(?:jupyter|ipython|notebook|jupyterlab)\b(?:[ /]?[\w.]+){0,4} is running at\b`)

func readJupyterHeader(r *reader, l logLine) {
	if jupyterHeader.MatchString(l.text) && !isHub(l.text) {
		r.ev.server(appJupyter).announcing = true // its addresses follow
		r.marks[jupyterBlock] = l.at.line
	}
}

func markJupyterBlock(r *reader, l logLine) { r.marks[jupyterBlock] = l.at.line }

// isHub reports whether a line is from JupyterHub itself, which serves logins, not a
// notebook.
func isHub(text string) bool {
	return strings.Contains(text, "JupyterHub") && !strings.Contains(text, "SingleUser")
}

// readJupyterURLs sorts the URLs of a line into the server's own, links of
// instructions, and others.
func readJupyterURLs(r *reader, l logLine) {
	urls := findURLs(l.text)
	if len(urls) == 0 || isHub(l.text) {
		return
	}
	own := isJupyterAnnouncement(r, l, urls[0])
	for _, u := range urls {
		s := statement{at: l.at, app: appJupyter, addr: u.address, desc: ownURL}
		switch {
		case own:
			r.ev.addOwn(s)
		case hasTokenParam(l.text[u.start:u.end]) && !isRequestLine(l.text):
			s.desc = "a link with a token"
			r.ev.addLink(s)
		}
	}
}

// Tokens outside of URLs: a link without a scheme, as job scripts print it, and a
// token after the word "token".
const bareLink = `(?:^|[\s("'<])(?P<host>` + hostPattern + `):(?P<port>\d{2,5})(?P<path>/[^\s?"']*)?\?token=(?P<token>[^\s&"')]+)`

var namedToken = regexp.MustCompile(`(?i)\b(?:token(?: is|\s*[:=])|with token)\s*["']?(?P<token>[A-Za-z0-9_-]{16,})["']?\s*$`)

func readJupyterToken(r *reader, l logLine) {
	if r.appNear(l) != appJupyter || hasTokenParam(l.text) {
		return
	}
	if addr, ok := l.match(namedToken); ok {
		r.ev.addLink(statement{at: l.at, app: appJupyter, addr: addr, desc: "the token named by the job script"})
	}
}

// isJupyterAnnouncement reports whether the line has nothing but the server's address.
func isJupyterAnnouncement(r *reader, l logLine, u foundURL) bool {
	before, after := strings.TrimRight(l.text[:u.start], "[<`"), strings.TrimSpace(l.text[u.end:])
	if strings.Trim(after, ">`") != "" && !strings.HasPrefix(after, "](") && !strings.HasPrefix(after, "::") {
		return false // "](" follows a URL in Markdown, "::" in the output of `jupyter server list`
	}
	if strings.Contains(before, "is running at") && jupyterHeader.MatchString(before) {
		return true
	}
	before = dropConjunction(before)
	tagged := strings.HasSuffix(before, "]") && jupyterTag.MatchString(before)
	if !tagged && dropPrefix(before) != "" {
		return false
	}
	inBlock := r.marked(jupyterBlock, l, blockLines)
	return tagged || inBlock || hasTokenParam(l.text[u.start:u.end]) && u.hasRealToken() && u.kind() != loopbackHost
}

// dropConjunction drops the word or bullet before a further URL.
func dropConjunction(before string) string {
	before = strings.TrimSpace(before)
	i := strings.LastIndexByte(before, ' ') + 1
	switch before[i:] {
	case "or", "and", "-", "*", "•":
		return strings.TrimSpace(before[:i])
	}
	return before
}

// linePrefix matches what wrappers print before each line: "notebook_1  | " by compose,
// "0: " by srun --label, a time by others.
var linePrefix = regexp.MustCompile(`^(?:\s*[\w.@/-]+\s*\|\s|\d+: |[\dT:., -]+Z?\s)`)

func dropPrefix(text string) string {
	text = strings.TrimLeft(text, "># \t│") + " "
	return strings.TrimSpace(text[len(linePrefix.FindString(text)):])
}

// hasTokenParam reports whether a URL has a parameter called token, as Jupyter's have.
func hasTokenParam(text string) bool {
	return strings.Contains(text, "?token=") || strings.Contains(text, "&token=")
}

// isRequestLine reports whether a line logs a request rather than an address.
func isRequestLine(text string) bool {
	return strings.Contains(text, " GET ") || strings.Contains(text, " POST ") || strings.Contains(text, "referer=")
}

// openFile matches the page that Jupyter writes next to its runtime file.
var openFile = regexp.MustCompile(`file://(/\S*/(?:jp|nb)server-\d+)-open\.html`)

func readRuntimeFile(r *reader, l logLine) {
	if m := openFile.FindStringSubmatch(l.text); m != nil {
		r.ev.setRuntimeFile(appJupyter, unescapePath(m[1])+".json", l.at)
	}
}
