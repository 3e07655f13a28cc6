package api

// StreamKind says where a private stream leads.
type StreamKind string

// The kinds of private streams.
const (
	// StreamDial is a connection to an address as the host sees it.
	StreamDial StreamKind = "dial"
	// StreamGateway is the server side of SSH, which passes channels on to the host.
	StreamGateway StreamKind = "gateway"
	// StreamSFTP is the host's file server.
	StreamSFTP StreamKind = "sftp"
)

// StreamUpgrade is the protocol that a request for a stream upgrades to: after the
// agent's 101 the connection is the stream.
const StreamUpgrade = "tunctl-stream"

// StreamRequest asks for a private stream over a host's connection, which is made
// first where there is none.
type StreamRequest struct {
	Kind StreamKind `json:"kind"`
	Host string     `json:"host"`
	// Node is a compute node beyond the host, to which gateway and sftp lead instead.
	Node    string `json:"node,omitempty"`
	Address string `json:"address,omitempty"` // of a dial: host:port, or a socket's path
	// Unattended says that nobody is there to be asked: a host that has stopped trying
	// is then left alone.
	Unattended bool `json:"unattended,omitempty"`
	// Again says that the stream replaces one that was lost: the host is waited for,
	// and nobody may be there to be asked.
	Again bool `json:"again,omitempty"`
	// Spare says that the stream is wanted only if the host has a session free now.
	Spare bool `json:"spare,omitempty"`
	// Connected says that the stream is wanted only over an existing connection: none is
	// made, and no login tried.
	Connected bool `json:"connected,omitempty"`
	Env       Env  `json:"env,omitempty"`
}

// PingRequest asks how long a connected host takes to answer now.
type PingRequest struct {
	Host string `json:"host"`
}

// PingResponse is how long it took, with what waits on the way.
type PingResponse struct {
	RTTMs float64 `json:"rttMs"`
}
