package api

// StreamKind is what a stream connects to.
type StreamKind string

// The kinds of streams.
const (
	// StreamDial is a connection to an address as the host sees it. What comes from
	// there is in chunks (RFC 9112, section 7.1): without the last one it is incomplete.
	StreamDial StreamKind = "dial-chunked"
	// StreamGateway is an SSH server, which passes channels on to the host.
	StreamGateway StreamKind = "gateway"
	// StreamSFTP is the host's file server.
	StreamSFTP StreamKind = "sftp"
)

// StreamUpgrade is the protocol that a request for a stream upgrades to: after the
// agent's 101 the connection is the stream.
const StreamUpgrade = "tunctl-stream"

// NoticeHeader of the agent's 101 has what the user should know about the stream.
const NoticeHeader = "Tunctl-Notice"

// OpenStream is a stream that is open now.
type OpenStream struct {
	Kind    StreamKind `json:"kind"`
	Host    string     `json:"host"`
	Session string     `json:"session,omitempty"` // in whose job it is
}

// StreamRequest asks for a stream over a host's connection, which is made first if
// needed.
type StreamRequest struct {
	Kind StreamKind `json:"kind"`
	Host string     `json:"host"`
	// Session means inside the job of this session, in place of Host. A session that is
	// down is never brought up for a stream.
	Session string `json:"session,omitempty"`
	// Node is a compute node behind the host, to which gateway and sftp connect instead; with
	// Session, one of the job's nodes: its name or its number, from 0.
	Node    string `json:"node,omitempty"`
	Address string `json:"address,omitempty"` // of a dial: host:port, or a socket's path
	// Unattended says that there is no user to ask: a host that has stopped dialling
	// is then left alone.
	Unattended bool `json:"unattended,omitempty"`
	// Again says that the stream replaces a lost one: it waits for the host, and there
	// may be no user to ask.
	Again bool `json:"again,omitempty"`
	// Spare says that the stream is wanted only if the host has a session free now.
	Spare bool `json:"spare,omitempty"`
	// Connected says that the stream is wanted only over an existing connection.
	Connected bool `json:"connected,omitempty"`
	Env       Env  `json:"env,omitempty"`
}
