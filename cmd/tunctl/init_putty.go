package main

import (
	"net"
	"strconv"
	"strings"
)

// puttySession is what PuTTY saved of a session, as far as it says where it leads.
type puttySession struct {
	protocol, host, user string
	port                 uint64
}

// destination is the session's host as ssh would take it, empty where it leads nowhere
// by SSH, as with PuTTY's default settings. A user in the host's name wins, as in PuTTY.
func (s puttySession) destination() string {
	host := strings.TrimSpace(s.host)
	if s.protocol != "ssh" || host == "" {
		return ""
	}
	user := s.user
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, host = host[:at], host[at+1:]
	}
	if user != "" {
		user += "@"
	}
	if s.port == 0 || s.port == 22 {
		return user + host
	}
	return "ssh://" + user + net.JoinHostPort(host, strconv.FormatUint(s.port, 10))
}
