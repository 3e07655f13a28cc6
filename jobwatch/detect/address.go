package detect

import (
	"net/url"
	"strconv"
	"strings"
)

// target is an address as a log prints it, before anything is believed of it.
type target struct {
	scheme string
	host   string
	port   int
	socket string
	path   string
	token  string
	masked bool // a token is needed, but the log hides it: token=...
	inner  bool // on the loopback of host
}

// place is what a printed host name is worth to somebody on the login node.
type place int

const (
	nowhere  place = iota // no host printed, or a word that stands for one
	loopback              // the node's own loopback
	wildcard              // every address of the node
	named                 // a name or an address that can be dialled
)

// place classifies the target's host.
func (t target) place() place {
	h := strings.ToLower(strings.Trim(t.host, "[]"))
	switch h {
	case "0.0.0.0", "::", "*", "...", "all ip addresses on your system":
		return wildcard
	case "localhost", "::1", "localhost.localdomain", "ip6-localhost", "0:0:0:0:0:0:0:1":
		return loopback
	case "", "unix":
		return nowhere
	}
	switch {
	case strings.HasPrefix(h, "127."):
		return loopback
	case isPlaceholderHost(h):
		return nowhere
	}
	return named
}

// isPlaceholderHost reports whether h stands for a host name without being one.
// NVIDIA's images print the word "hostname" itself.
func isPlaceholderHost(h string) bool {
	switch h {
	case "hostname", "your-hostname", "host", "host_name", "node", "nodename", "node_name", "computenode", "compute_node",
		"ip", "ip_address", "server", "remote_host", "remotehost", "your_server", "your-server":
		return true
	}
	return strings.ContainsAny(h, "<>${}%*()|\\")
}

// clone copies the target's words, which are parts of a long line, and leaves out
// those that no server would print.
func (t target) clone() target {
	keep := func(s string, most int) string {
		if len(s) > most {
			return ""
		}
		return strings.Clone(s)
	}
	t.scheme, t.host, t.socket = keep(t.scheme, 16), keep(t.host, 255), keep(t.socket, 1024)
	t.path, t.token = keep(t.path, 1024), keep(t.token, 1024)
	return t
}

// foundURL is a URL and where in its line it stands.
type foundURL struct {
	target
	start, end int
}

// findURLs returns the http, https and http+unix URLs of a line, in order.
func findURLs(text string) []foundURL {
	var found []foundURL
	for from := 0; ; {
		i := strings.Index(text[from:], "://")
		if i < 0 {
			return found
		}
		colon := from + i
		from = colon + len("://")
		start := schemeStart(text, colon)
		switch scheme := strings.ToLower(text[start:colon]); scheme {
		case "http", "https":
			u := parseWebURL(text, scheme, from)
			u.start = start
			found, from = append(found, u), max(u.end, from)
		case "http+unix":
			u := parseUnixURL(text, from)
			u.start = start
			found, from = append(found, u), max(u.end, from)
		}
	}
}

// schemeStart walks back from the colon of "://" to where the scheme begins.
func schemeStart(text string, colon int) int {
	i := colon
	for i > 0 && (isLetter(text[i-1]) || text[i-1] == '+') {
		i--
	}
	// A word glued to the scheme ("URL=http", "urlhttp") is not part of it.
	if j := strings.LastIndex(strings.ToLower(text[i:colon]), "http"); j > 0 {
		i += j
	}
	return i
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// parseWebURL reads what follows "http://" at from. Servers print hosts that no
// URL parser accepts, so each form has its branch.
func parseWebURL(text, scheme string, from int) foundURL {
	u := foundURL{target: target{scheme: scheme}}
	rest := text[from:]
	n := authorityLen(rest)
	u.host, u.port = splitAuthority(rest[:n])
	if u.port == 0 && !strings.Contains(hostPortTail(rest[:n]), ":") {
		u.port = map[string]int{"http": 80, "https": 443}[scheme]
	}
	if strings.HasPrefix(rest[n:], "<") && n > 0 && rest[n-1] == ':' { // http://localhost:<port>/
		n += strings.Index(rest[n:], ">") + 1
	}
	tail := trimURL(rest[n:pathEnd(rest, n)], text[:from])
	u.end = from + n + len(tail)
	u.readTail(tail)
	return u
}

// authorityLen is the length of the host and port at the start of rest.
func authorityLen(rest string) int {
	i := 0
	if rest != "" {
		// "(n003 or 127.0.0.1)", "[all ip addresses on your system]", "<node>"
		if end, ok := map[byte]string{'(': ")", '[': "]", '<': ">"}[rest[0]]; ok {
			if j := strings.Index(rest[:min(len(rest), 300)], end); j > 0 {
				i = j + 1
			}
		}
	}
	for i < len(rest) && !strings.ContainsRune("/?# \t\"'`<>),;\\|", rune(rest[i])) {
		i++
	}
	return i
}

// hostPortTail is an authority without its bracketed part.
func hostPortTail(authority string) string {
	return authority[strings.LastIndexAny(authority, "])>")+1:]
}

// splitAuthority separates the host from the port. More than one colon outside
// brackets is an IPv6 address that the server forgot to bracket.
func splitAuthority(authority string) (host string, port int) {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	authority = strings.TrimRight(authority, ".:!*")
	tail := hostPortTail(authority)
	host = authority
	if i := strings.LastIndexByte(tail, ':'); i >= 0 {
		if p, ok := parsePort(tail[i+1:]); ok {
			port = p
		}
		host = authority[:len(authority)-len(tail)+i]
	}
	return unwrapHost(host), port
}

// unwrapHost takes the brackets from a host and chooses from "(a or b)".
func unwrapHost(host string) string {
	if inner, ok := strings.CutPrefix(host, "("); ok {
		first, _, _ := strings.Cut(strings.TrimSuffix(inner, ")"), " or ")
		return strings.TrimSpace(first)
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") && strings.Contains(host, ":") {
		return host[1 : len(host)-1]
	}
	return host
}

// parsePort reads a port number.
func parsePort(s string) (int, bool) {
	p, err := strconv.ParseUint(s, 10, 16)
	if err != nil || p == 0 {
		return 0, false
	}
	return int(p), true
}

// pathEnd is where the path and query that start at from end.
func pathEnd(rest string, from int) int {
	for i := from; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c <= ' ', c == '"', c == '\'', c == '`', c == '\\', c == '|', strings.HasPrefix(rest[i:], "]("):
			return i
		case c == '<' || c == '>':
			// A placeholder such as token=<TOKEN> belongs to the URL; <http://…> does not.
			if c == '>' && !strings.Contains(rest[from:i], "<") {
				return i
			}
		}
	}
	return len(rest)
}

// trimURL drops the punctuation of the sentence around a URL. Dots that stand for
// something left out stay, since they mean that the token is not whole.
func trimURL(tail, before string) string {
	for tail != "" {
		last := tail[len(tail)-1]
		switch last {
		case '.':
			if strings.HasSuffix(tail, "..") {
				return tail
			}
		case ',', ';', ':', '!', '*':
		case ')':
			if strings.Count(tail, "(") >= strings.Count(tail, ")") {
				return tail
			}
		case ']', '}':
			if strings.ContainsAny(tail, "[{") || !strings.ContainsAny(before, "[{") {
				return tail
			}
		default:
			return tail
		}
		tail = tail[:len(tail)-1]
	}
	return tail
}

// readTail fills in the path and the token.
func (t *target) readTail(tail string) {
	tail, _, _ = strings.Cut(tail, "#")
	path, query, _ := strings.Cut(tail, "?")
	t.path = path
	if t.path == "" {
		t.path = "/"
	}
	for pair := range strings.SplitSeq(query, "&") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		switch strings.ToLower(key) {
		case "token", "access_token", "secret", "tkn":
			t.setToken(value)
		}
	}
}

// setToken takes the value of a token parameter. Dots, dashes and stars alone
// mean that there is one which the server does not print.
func (t *target) setToken(value string) {
	if strings.Trim(value, ".-*_•…") == "" {
		t.masked = true
		return
	}
	if text, err := url.QueryUnescape(value); err == nil {
		value = text
	}
	t.token = value
}

// hasRealToken reports whether the token could be one, rather than the
// placeholder of an instruction.
func (t target) hasRealToken() bool {
	if len(t.token) < 16 {
		return false
	}
	for i := range len(t.token) {
		c := t.token[i]
		if !isLetter(c) && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return strings.ContainsAny(t.token, "0123456789")
}

// parseUnixURL reads what follows "http+unix://": a socket's path, escaped.
func parseUnixURL(text string, from int) foundURL {
	rest := text[from:]
	n := authorityLen(rest)
	end := pathEnd(rest, n)
	u := foundURL{target: target{scheme: "http"}, end: from + end}
	u.readTail(trimURL(rest[n:end], ""))
	if path, err := url.PathUnescape(rest[:n]); err == nil {
		u.socket = path
	}
	return u
}

// String shows the target without its token.
func (t target) String() string {
	switch {
	case t.socket != "":
		return t.socket
	case t.host == "" && t.port == 0:
		return ""
	case t.port == 0:
		return t.host
	}
	text := t.host + ":" + strconv.Itoa(t.port)
	if t.scheme != "" {
		text = t.scheme + "://" + text
	}
	if t.path != "/" {
		text += t.path
	}
	return text
}

// link is the target as a link to open.
func (t target) link() string {
	u := url.URL{Scheme: t.scheme, Host: t.host, Path: t.path}
	return u.String()
}

// unescapePath undoes a file URL's escaping.
func unescapePath(path string) string {
	if text, err := url.PathUnescape(path); err == nil {
		return text
	}
	return path
}
