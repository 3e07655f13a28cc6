package show

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"

	"tunctl/internal/api"
)

// Forward says what a forward connects. Its place is the host, or the node that its job runs on.
func Forward(f api.Forward, place string) string {
	switch {
	case f.Kind == api.ForwardDynamic:
		return f.Listen + " is a SOCKS proxy on " + place
	case f.Kind == api.ForwardRemote:
		return fmt.Sprintf("%s on %s → %s here", f.Listen, place, f.Target)
	case f.Target == "": // not known yet
		return f.Listen
	}
	name, _, err := net.SplitHostPort(f.Target)
	addr, isName := netip.ParseAddr(name)
	if err != nil || name == "localhost" || isName == nil && addr.IsLoopback() { // a socket, or a port
		return fmt.Sprintf("%s → %s on %s", f.Listen, f.Target, place)
	}
	return fmt.Sprintf("%s → %s through %s", f.Listen, f.Target, place)
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

// JobPlace is where the job of a session runs, in words; without a job, its host.
func JobPlace(s api.Session) string {
	if s.Job == nil {
		return s.Host
	}
	return cmp.Or(s.Job.Node, "the node of the job")
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
