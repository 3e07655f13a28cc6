package forward

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"tunctl/internal/api"
)

// localTokenPrefix begins each local token. Whatever begins with it in a request's head is one, or
// should be.
const localTokenPrefix = "tunctl-local-token-" //nolint:gosec // a prefix, and no secret

var (
	localToken     = regexp.MustCompile(localTokenPrefix + `\w*`)
	percentEncoded = regexp.MustCompile(`%[[:xdigit:]]{2}`)
)

// NewLocalToken returns a token that a client of a forward sends in place of the target's, so that
// its address stays although the target has another token each time.
func NewLocalToken() api.Secret { return api.NewSecret(localTokenPrefix + rand.Text()) }

// checkTokens refuses a request with a local token that is not the right one. It is called for each
// request of a connection, since the right one may have been replaced.
func (f *Forward) checkTokens(line, header []byte) ([]byte, error) {
	head := slices.Concat(line, header)
	sent := localToken.FindAll(head, -1)
	if len(sent) == 0 && bytes.Contains(unescape(line), []byte(localTokenPrefix)) {
		sent = append(sent, nil) // it would not be replaced
	}
	want := []byte(f.o.LocalToken())
	for _, token := range sent {
		if len(want) == 0 || subtle.ConstantTimeCompare(token, want) == 0 {
			return nil, &refusedError{http.StatusForbidden, "requests with an earlier or wrong local token", "`tunctl open SESSION --client` prints the address with the right one"}
		}
	}
	return head, nil
}

// unescape decodes what is percent-encoded; a percent sign that encodes nothing stays.
func unescape(line []byte) []byte {
	return percentEncoded.ReplaceAllFunc(line, func(b []byte) []byte {
		n, _ := strconv.ParseUint(string(b[1:]), 16, 8) // these are two hexadecimal digits
		return []byte{byte(n)}
	})
}

// exchangeTokens has the target get its own token in place of local ones. They were checked.
func exchangeTokens(t Target) Target {
	if !t.HTTP {
		return t
	}
	x := &exchange{Dialer: t.Dialer, upgrades: t.Upgrades, token: t.Token}
	if t.Dialer = x; t.Upgrades != nil {
		t.Upgrades = x
	}
	return t
}

// exchange dials a target.
type exchange struct {
	Dialer
	upgrades UpgradeDialer
	token    api.Secret
}

// Dial implements Dialer.
func (x *exchange) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := x.Dialer.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &exchangedConn{conn, x.requests()}, nil
}

// DialUpgrade implements UpgradeDialer.
func (x *exchange) DialUpgrade(ctx context.Context, network, address string, request []byte) (net.Conn, error) {
	requests := x.requests()
	request, err := requests.filter(request)
	if err != nil {
		return nil, err
	}
	conn, err := x.upgrades.DialUpgrade(ctx, network, address, request)
	if err != nil {
		return nil, err
	}
	if direct, ok := conn.(DirectConn); ok {
		return DirectConn{&exchangedConn{direct.Conn, requests}}, nil
	}
	return &exchangedConn{conn, requests}, nil
}

// requests are those of one connection.
func (x *exchange) requests() *requestStream {
	return &requestStream{edit: func(line, header []byte) ([]byte, error) {
		token := x.token.Reveal()
		line = localToken.ReplaceAllLiteral(line, []byte(url.QueryEscape(token)))
		return append(line, localToken.ReplaceAllLiteral(header, []byte(token))...), nil
	}}
}

// exchangedConn is a connection to a target.
type exchangedConn struct {
	net.Conn
	requests *requestStream
}

// Write sends what a client has sent, with the target's token.
func (c *exchangedConn) Write(p []byte) (int, error) {
	pass, err := c.requests.filter(p)
	if err == nil && len(pass) > 0 {
		_, err = c.Conn.Write(pass)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
