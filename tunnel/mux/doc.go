// Package mux has an OpenSSH ControlMaster of ours listen on its host, with the requests
// of PROTOCOL.mux of openssh-portable.
//
// x/crypto's NewControlClientConn carries everything else over such a master, but does
// not get its reply to a request for a listener.
package mux
