package forward

import (
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
// reads nothing after the request.
func socksRequest(c net.Conn) (address string, err error) {
	_ = c.SetDeadline(time.Now().Add(socksTimeout))
	defer func() { _ = c.SetDeadline(time.Time{}) }()
	if err := socksMethod(c); err != nil {
		return "", err
	}
	head, err := socksRead(c, 4) // version, command, reserved, address type
	if err != nil {
		return "", err
	}
	if head[0] != socksVersion {
		return "", fmt.Errorf("version %d in a request", head[0])
	}
	address, err = socksAddress(c, head[3])
	if err != nil {
		return "", errors.Join(err, socksSend(c, socksBadAddressType))
	}
	if head[1] != socksConnect {
		return "", errors.Join(fmt.Errorf("command %d", head[1]), socksSend(c, socksBadCommand))
	}
	return address, nil
}

// socksMethod negotiates how the client authenticates. It need not; but a client that
// only supports a name and a password may use any.
func socksMethod(c net.Conn) error {
	head, err := socksRead(c, 2) // version, number of methods
	if err != nil {
		return err
	}
	if head[0] != socksVersion {
		return fmt.Errorf("version %d in a greeting", head[0])
	}
	methods, err := socksRead(c, int(head[1]))
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(methods, socksNoAuth):
		_, err = c.Write([]byte{socksVersion, socksNoAuth})
		return err
	case slices.Contains(methods, socksPassword):
		return socksAnyPassword(c)
	}
	_, err = c.Write([]byte{socksVersion, socksNoAcceptable})
	return errors.Join(errors.New("no method in common"), err)
}

func socksAnyPassword(c net.Conn) error {
	if _, err := c.Write([]byte{socksVersion, socksPassword}); err != nil {
		return err
	}
	version, err := socksRead(c, 1)
	if err != nil {
		return err
	}
	if version[0] != socksPasswordVersion {
		return fmt.Errorf("version %d of the password method", version[0])
	}
	for range 2 { // the name, the password
		if _, err := socksString(c); err != nil {
			return err
		}
	}
	_, err = c.Write([]byte{socksPasswordVersion, socksGranted})
	return err
}

// socksAddress reads an address of the given type and its port.
func socksAddress(c net.Conn, kind byte) (string, error) {
	var host string
	var err error
	switch kind {
	case socksIPv4:
		host, err = socksIP(c, net.IPv4len)
	case socksIPv6:
		host, err = socksIP(c, net.IPv6len)
	case socksName:
		host, err = socksString(c)
	default:
		err = fmt.Errorf("address type %d", kind)
	}
	if err != nil {
		return "", err
	}
	port, err := socksRead(c, 2)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port)))), nil
}

func socksIP(c net.Conn, size int) (string, error) {
	b, err := socksRead(c, size)
	ip, _ := netip.AddrFromSlice(b)
	return ip.String(), err
}

// socksString reads a string that follows its length in one byte.
func socksString(c net.Conn) (string, error) {
	size, err := socksRead(c, 1)
	if err != nil {
		return "", err
	}
	b, err := socksRead(c, int(size[0]))
	return string(b), err
}

func socksRead(c net.Conn, size int) ([]byte, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(c, b)
	return b, err
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
	return socksSend(c, code)
}

// socksSend sends a reply. The bound address, which only the host knows, is zero.
func socksSend(c net.Conn, code byte) error {
	_ = c.SetWriteDeadline(time.Now().Add(socksTimeout))
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	_, err := c.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
