package detect

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
)

// address is an address as a log prints it.
type address struct {
	scheme     string
	host       string
	port       int
	socket     string
	path       string
	token      string
	masked     bool // a token is needed, but the log hides it: token=...
	onLoopback bool // it is on the loopback of host
}

// hostKind is what a printed host means to a client on the login node.
type hostKind int

const (
	noHost       hostKind = iota // no host, or a placeholder
	loopbackHost                 // the loopback of the node
	wildcardHost                 // every address of the node
	namedHost                    // a name or an address that can be dialled
)

// kind classifies the host.
func (a address) kind() hostKind {
	h := strings.ToLower(strings.Trim(a.host, "[]"))
	switch h {
	case "0.0.0.0", "::", "*", "...", "all ip addresses on your system":
		return wildcardHost
	case "localhost", "::1", "localhost.localdomain", "ip6-localhost", "0:0:0:0:0:0:0:1":
		return loopbackHost
	case "", "unix", "hostname", "your-hostname", "host", "host_name", "node", "nodename", "node_name", "computenode", "compute_node",
		"ip", "ip_address", "server", "remote_host", "remotehost", "your_server", "your-server":
		return noHost // NVIDIA's images print the word "hostname" itself
	}
	switch {
	case strings.HasPrefix(h, "127."):
		return loopbackHost
	case strings.ContainsAny(h, "<>${}%*()|\\"):
		return noHost
	}
	return namedHost
}

// sameServer reports whether two addresses lead to one server, as far as their hosts tell.
func (a address) sameServer(b address) bool {
	named := a.kind() == namedHost && b.kind() == namedHost
	return a.port == b.port && a.socket == b.socket && (!named || a.host == b.host)
}

// clone copies the strings, which are parts of a long line, and drops those that are
// too long to be real.
func (a address) clone() address {
	keep := func(s string, most int) string {
		if len(s) > most {
			return ""
		}
		return strings.Clone(s)
	}
	a.scheme, a.host, a.socket = keep(a.scheme, 16), keep(a.host, 255), keep(a.socket, 1024)
	a.path, a.token = keep(a.path, 1024), keep(a.token, 1024)
	return a
}

// foundURL is a URL and its place in the line.
type foundURL struct {
	address
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
		var u foundURL
		switch scheme := strings.ToLower(text[start:colon]); scheme {
		case "http", "https":
			u = parseWebURL(text, scheme, from)
		case "http+unix":
			u = parseUnixURL(text, from)
		default:
			continue
		}
		u.start = start
		found, from = append(found, u), max(u.end, from)
	}
}

// schemeStart is where the scheme before the colon of "://" begins.
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

// parseWebURL reads what follows "http://" at from. Servers print hosts that no URL
// parser accepts.
func parseWebURL(text, scheme string, from int) foundURL {
	u := foundURL{address: address{scheme: scheme}}
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
	u.parseTail(tail)
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
// brackets is an IPv6 address without brackets.
func splitAuthority(authority string) (host string, port int) {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	authority = strings.TrimRight(authority, ".:!*")
	tail := hostPortTail(authority)
	host = authority
	if i := strings.LastIndexByte(tail, ':'); i >= 0 {
		port = parsePort(tail[i+1:])
		host = authority[:len(authority)-len(tail)+i]
	}
	return unwrapHost(host), port
}

// unwrapHost drops the brackets of a host, and takes the first of "(a or b)".
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

// parsePort reads a port number; 0 if it is none.
func parsePort(s string) int {
	p, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return int(p)
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

// trimURL drops the punctuation of the sentence around a URL. An ellipsis is kept,
// since it means that the token is not complete.
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

// parseTail reads the path and the token.
func (a *address) parseTail(tail string) {
	tail, _, _ = strings.Cut(tail, "#")
	path, query, _ := strings.Cut(tail, "?")
	a.path = cmp.Or(path, "/")
	for pair := range strings.SplitSeq(query, "&") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		switch strings.ToLower(key) {
		case "token", "access_token", "secret", "tkn", "mwi_auth_token":
			a.setToken(value)
		}
	}
}

// setToken reads the value of a token parameter. Only dots, dashes or stars mean that
// the server hides its token.
func (a *address) setToken(value string) {
	if strings.Trim(value, ".-*_•…") == "" {
		a.masked = true
		return
	}
	if text, err := url.QueryUnescape(value); err == nil {
		value = text
	}
	a.token = value
}

// hasRealToken reports whether the token can be a real one, rather than the placeholder
// of an instruction.
func (a address) hasRealToken() bool {
	return len(a.token) >= 16 && isAlphanumericOr(a.token, "-_") && strings.ContainsAny(a.token, "0123456789")
}

// parseUnixURL reads what follows "http+unix://": a socket's path, escaped.
func parseUnixURL(text string, from int) foundURL {
	rest := text[from:]
	n := authorityLen(rest)
	end := pathEnd(rest, n)
	u := foundURL{address: address{scheme: "http"}, end: from + end}
	u.parseTail(trimURL(rest[n:end], ""))
	u.socket = unescapePath(rest[:n])
	return u
}

// String returns the address without its token.
func (a address) String() string {
	switch {
	case a.socket != "":
		return a.socket
	case a.host == "" && a.port == 0:
		return ""
	case a.port == 0:
		return a.host
	}
	text := a.host + ":" + strconv.Itoa(a.port)
	if a.scheme != "" {
		text = a.scheme + "://" + text
	}
	if a.path != "/" {
		text += a.path
	}
	return text
}

// link is the address as a link to open.
func (a address) link() string {
	u := url.URL{Scheme: a.scheme, Host: a.host, Path: a.path}
	return u.String()
}

// unescapePath undoes a file URL's escaping.
func unescapePath(path string) string {
	if text, err := url.PathUnescape(path); err == nil {
		return text
	}
	return path
}
