package configs

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// ForwardSpec is a forward in the config. Listen and Target are "host:port", or the path
// of a unix socket. Port 0 to listen on is any free one.
type ForwardSpec struct {
	Kind   api.ForwardKind
	Listen string
	Target string // empty for a dynamic forward
}

// PicksPort reports whether the forward listens on any free port of this computer.
func (f ForwardSpec) PicksPort() bool { return picksPort(f.Listen) }

// String is the spec as written in the config.
func (f ForwardSpec) String() string {
	switch {
	case f.Kind == api.ForwardRemote:
		return "R:" + strings.TrimPrefix(f.Listen, "localhost:") + ":" + f.Target
	case f.Kind == api.ForwardDynamic:
		return "D:" + f.Listen
	case hasDrive(f.Listen):
		return "L:" + f.Listen + ":" + f.Target // D: is a kind, too
	}
	return f.Listen + ":" + f.Target
}

// ForwardHint shows how forwards are written.
const ForwardHint = `write "6006", "0:6006", "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"`

// ParseForward reads a forward written as for ssh -L, -R and -D, with the letter
// in front: "5432:db.int:5432" (or with L:), "R:9000:localhost:9000", "D:1080".
// A listener without an address is on loopback, one with "*" on all interfaces,
// which Listen has as ":port"; port 0 on this computer is any free one. A target without a
// host is localhost at the other end, and "6006" alone is "6006:localhost:6006". A socket
// on this computer may begin with "~/". The error is an *api.Error.
func ParseForward(spec string) (ForwardSpec, error) {
	kind, loopback, rest := api.ForwardLocal, "127.0.0.1", spec
	switch {
	case strings.HasPrefix(spec, "L:"):
		rest = spec[2:]
	case strings.HasPrefix(spec, "R:"):
		// sshd knows "localhost" to mean every loopback address; RFC 4254, 7.1.
		kind, loopback, rest = api.ForwardRemote, "localhost", spec[2:]
	case strings.HasPrefix(spec, "D:"):
		kind, rest = api.ForwardDynamic, spec[2:]
	}
	if kind == api.ForwardLocal && isPort(rest) {
		rest += ":" + rest
	}
	listen, target, err := splitForward(rest, loopback)
	switch {
	case err != nil:
	case kind == api.ForwardDynamic && target != "":
		err = errors.New("a D: forward has no target")
	case kind != api.ForwardDynamic && target == "":
		err = errors.New("the target is missing")
	case kind == api.ForwardRemote && picksPort(listen):
		err = errors.New("port 0, for any free one, works only on this computer")
	}
	if err != nil {
		return ForwardSpec{}, api.Errorf(api.CodeUsage, "bad forward %q: %w", spec, err).WithHint("%s", ForwardHint)
	}
	here := &listen
	if kind == api.ForwardRemote {
		here = &target
	}
	*here = filepath.ToSlash(LocalPath(*here)) // a slash tells a socket from an address
	return ForwardSpec{Kind: kind, Listen: listen, Target: target}, nil
}

// splitForward reads [bind:]port or a socket, and what follows as the target.
func splitForward(text, loopback string) (listen, target string, err error) {
	words, err := splitColons(text)
	if err != nil {
		return "", "", err
	}
	switch {
	case isSocket(words[0]):
		listen, words = words[0], words[1:]
	case isPort(words[0]):
		listen, err = address(loopback, words[0], 0)
		words = words[1:]
	case len(words) > 1:
		if words[0] == "*" {
			words[0] = "" // as in Go and RFC 4254, no address means all
		}
		listen, err = address(words[0], words[1], 0)
		words = words[2:]
	default:
		err = fmt.Errorf("%q is neither a port nor a socket path", words[0])
	}
	if err != nil {
		return "", "", err
	}
	switch {
	case len(words) > 2:
		err = errors.New("too many colons; put an IPv6 address in brackets")
	case len(words) == 2 && words[0] == "":
		err = errors.New("the target's host is missing")
	case len(words) == 2:
		target, err = address(words[0], words[1], 1)
	case len(words) == 0:
	case isSocket(words[0]):
		target = words[0]
	case isPort(words[0]):
		target, err = address("localhost", words[0], 1)
	default:
		err = fmt.Errorf("the target %q has no port", words[0])
	}
	return listen, target, err
}

// forwardWord matches an address in brackets, or what stands before the next colon: that of
// a Windows drive is part of a path.
var forwardWord = regexp.MustCompile(`^(?:\[([^\]]*)\]|([A-Za-z]:/[^:]*|[^:\[][^:]*|))(:|$)`)

// splitColons cuts at the colons outside of brackets, and drops the brackets.
func splitColons(text string) ([]string, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("spaces are not allowed")
	}
	var words []string
	for more := true; more; {
		m := forwardWord.FindStringSubmatch(text)
		if m == nil || strings.HasPrefix(text, "[") && net.ParseIP(m[1]) == nil {
			return nil, errors.New("only an IPv6 address may be in brackets")
		}
		words, text, more = append(words, m[1]+m[2]), text[len(m[0]):], m[3] == ":"
	}
	return words, nil
}

// address joins a valid host, and a port that is at least that.
func address(host, port string, least uint64) (string, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n < least:
		return "", fmt.Errorf("%q is not a port between 1 and 65535", port)
	case strings.Contains(host, "/"):
		return "", fmt.Errorf("%q is not a host", host)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

// picksPort reports whether the port of an address is 0: any free one.
func picksPort(address string) bool { return strings.HasSuffix(address, ":0") && !isSocket(address) }

func isPort(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }

func isSocket(word string) bool {
	return strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~/") || hasDrive(word)
}

// hasDrive reports whether a path is a Windows path with slashes.
func hasDrive(path string) bool {
	return len(path) > 2 && path[1:3] == ":/" && (path[0]|0x20 >= 'a' && path[0]|0x20 <= 'z')
}
