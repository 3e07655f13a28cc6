package show

import (
	"fmt"
	"net"
	"net/netip"

	"tunctl/internal/api"
)

// Forward says what a forward connects.
func Forward(f api.Forward, host string) string {
	switch f.Kind {
	case api.ForwardRemote:
		return fmt.Sprintf("%s on %s goes to %s on this machine", f.Listen, host, f.Target)
	case api.ForwardDynamic:
		return fmt.Sprintf("%s on this machine is a SOCKS5 proxy; connections leave from %s", f.Listen, host)
	}
	name, port, err := net.SplitHostPort(f.Target)
	if addr, e := netip.ParseAddr(name); err == nil && (name == "localhost" || e == nil && addr.IsLoopback()) {
		return fmt.Sprintf("%s on this machine goes to port %s on %s", f.Listen, port, host)
	}
	if err != nil { // a socket
		return fmt.Sprintf("%s on this machine goes to %s on %s", f.Listen, f.Target, host)
	}
	return fmt.Sprintf("%s on this machine goes to %s, as seen from %s", f.Listen, f.Target, host)
}

// forwardNote says what a forward connects, in short.
func forwardNote(s api.Session, f api.Forward) string {
	note := f.Listen
	if f.Target != "" {
		note += " → " + f.Target
	}
	switch {
	case s.Job == nil: // there is no node
	case f.Kind == api.ForwardDynamic:
		note += " is a SOCKS proxy on " + JobPlace(s)
	case f.Target != "":
		note += " on " + JobPlace(s)
	}
	return note
}

// sharedText says who may connect to a forward besides its owner.
func sharedText(f api.Forward) string {
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && OpenToOthers(host) {
		return "! shared: anyone who can reach " + f.Listen + " can connect"
	}
	return "! shared: other users of this computer can connect to " + f.Listen
}

// OpenToOthers reports whether others than this computer can reach an address.
func OpenToOthers(bind string) bool {
	addr, err := netip.ParseAddr(bind)
	return bind != "" && bind != "localhost" && (err != nil || !addr.IsLoopback())
}

// JobPlace is where the job of a session runs, in words.
func JobPlace(s api.Session) string {
	if s.Job != nil && s.Job.Node != "" {
		return s.Job.Node
	}
	return "the node of the job"
}

// Exposure says who else can reach a session's page, if tunctl knows of no password for it.
func Exposure(s api.Session) string {
	if s.Endpoint == nil || s.Job == nil {
		return ""
	}
	switch s.Endpoint.Exposure {
	case api.ExposureNode:
		return fmt.Sprintf("tunctl set no password for this page: other users who are on %s can reach it, too, while the job runs", s.Job.Node)
	case api.ExposureNetwork:
		return fmt.Sprintf("tunctl set no password for this page, and its program listens on all addresses of %s: everyone on the cluster's network can reach it. "+
			"If the program can listen on one address, add {host} to the command", s.Job.Node)
	}
	return ""
}
