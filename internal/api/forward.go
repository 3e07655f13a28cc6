package api

import "time"

// ForwardKind is which end of a forward listens.
type ForwardKind string

// The kinds of forwards.
const (
	ForwardLocal   ForwardKind = "local"   // listens here, dials beyond the host
	ForwardRemote  ForwardKind = "remote"  // listens on the host, dials here
	ForwardDynamic ForwardKind = "dynamic" // a SOCKS5 server here
)

// Forward is a listener whose connections travel over a host's SSH connection,
// with its counters.
type Forward struct {
	Kind     ForwardKind `json:"kind"`
	Endpoint string      `json:"endpoint,omitempty"` // the name of the session's further endpoint that it leads to
	Added    bool        `json:"added,omitempty"`    // to those of the session, until its down
	Listen   string      `json:"listen"`
	Note     string      `json:"note,omitempty"`  // why it does not listen on the wanted port
	Error    string      `json:"error,omitempty"` // why the host does not listen for it
	Target   string      `json:"target,omitempty"`
	Shared   bool        `json:"shared,omitempty"` // others than this user may connect
	Conns    int64       `json:"conns"`            // now
	Total    int64       `json:"total"`            // ever
	BytesIn  int64       `json:"bytesIn"`
	BytesOut int64       `json:"bytesOut"`
	Refused  int64       `json:"refused"`
	Direct   int64       `json:"direct,omitempty"` // WebSockets now that end with the connection to the host, while others of the page continue
	LastUsed time.Time   `json:"lastUsed,omitzero"`
	RTTMs    float64     `json:"rttMs,omitempty"` // to open a connection to the target
}
