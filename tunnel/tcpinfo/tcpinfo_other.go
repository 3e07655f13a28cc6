//go:build !linux && !darwin

package tcpinfo

import "net"

// Read knows nothing here: keepalives alone find out that a host does not respond.
func Read(net.Conn) (Info, bool) { return Info{}, false }

// TuneRetransmit does nothing: only Linux can do that.
func TuneRetransmit(net.Conn) {}
