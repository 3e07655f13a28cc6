package forward

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"tunctl/internal/api"
)

// The numbers of RFC 1928 and, for the password method, RFC 1929.
const (
	socksVersion = 5

	socksNoAuth       = 0x00
	socksPassword     = 0x02
	socksNoAcceptable = 0xff

	socksConnect = 0x01

	socksIPv4 = 0x01
	socksName = 0x03
	socksIPv6 = 0x04

	socksGranted         = 0x00
	socksFailure         = 0x01
	socksNotAllowed      = 0x02
	socksNetUnreachable  = 0x03
	socksRefused         = 0x05
	socksBadCommand      = 0x07
	socksBadAddressType  = 0x08
	socksPasswordVersion = 0x01
)

// socksTimeout bounds the handshake with a client.
const socksTimeout = 10 * time.Second

// socksRequest does the server's part of a SOCKS5 handshake up to the request, and
// returns the requested address. A name stays a name: it is resolved beyond the host. It
// reads nothing after the request. A client need not authenticate; but one that only
// supports a name and a password may use any.
func socksRequest(conn net.Conn) (address string, err error) {
	_ = conn.SetDeadline(time.Now().Add(socksTimeout))
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	c := &socksClient{conn: conn}
	c.expect(socksVersion, "a greeting")
	switch methods := c.next(c.number()); {
	case slices.Contains(methods, socksNoAuth):
		c.send(socksVersion, socksNoAuth)
	case slices.Contains(methods, socksPassword):
		c.send(socksVersion, socksPassword)
		c.expect(socksPasswordVersion, "the password method")
		c.next(c.number()) // the name
		c.next(c.number()) // the password
		c.send(socksPasswordVersion, socksGranted)
	default:
		c.send(socksVersion, socksNoAcceptable)
		c.fail("no method in common")
	}
	c.expect(socksVersion, "a request")
	command, kind := c.next(2)[0], c.number() // a reserved byte is between them
	var host string
	switch kind {
	case socksIPv4:
		host = socksIP(c.next(net.IPv4len))
	case socksIPv6:
		host = socksIP(c.next(net.IPv6len))
	case socksName:
		host = string(c.next(c.number()))
	default:
		c.send(socksAnswer(socksBadAddressType)...)
		c.fail("address type %d", kind)
	}
	port := binary.BigEndian.Uint16(c.next(2))
	if command != socksConnect {
		c.send(socksAnswer(socksBadCommand)...)
		c.fail("command %d", command)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), c.err
}

// socksClient is a client during its handshake. After the first error nothing is read or
// sent, and what is read is zero.
type socksClient struct {
	conn net.Conn
	err  error
}

func (c *socksClient) next(size int) []byte {
	b := make([]byte, size)
	if c.err == nil {
		_, c.err = io.ReadFull(c.conn, b)
	}
	return b
}

func (c *socksClient) number() int { return int(c.next(1)[0]) }

func (c *socksClient) expect(version int, where string) {
	if got := c.number(); got != version {
		c.fail("version %d in %s", got, where)
	}
}

func (c *socksClient) send(b ...byte) {
	if c.err == nil {
		_, c.err = c.conn.Write(b)
	}
}

func (c *socksClient) fail(format string, args ...any) {
	c.err = cmp.Or(c.err, fmt.Errorf(format, args...))
}

func socksIP(b []byte) string {
	ip, _ := netip.AddrFromSlice(b)
	return ip.String()
}

// socksReply reports the result of its request to the client.
func socksReply(c net.Conn, err error) error {
	code := byte(socksFailure)
	switch {
	case err == nil:
		code = socksGranted
	case errors.Is(err, api.ErrProhibited):
		code = socksNotAllowed
	case errors.Is(err, api.ErrDown), errors.Is(err, errNoTarget):
		code = socksNetUnreachable
	case errors.Is(err, api.ErrRefused):
		code = socksRefused
	}
	_ = c.SetWriteDeadline(time.Now().Add(socksTimeout))
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	_, err = c.Write(socksAnswer(code))
	return err
}

// socksAnswer answers a request. The bound address, which only the host knows, is zero.
func socksAnswer(code byte) []byte {
	return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}
