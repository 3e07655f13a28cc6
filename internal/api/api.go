// Package api has the types of the local API: states, jobs, endpoints, forwards, the
// status, events, prompts, requests and errors. The agent, its clients, the tunnel and
// the job watchers all use them.
//
// It is a leaf: it imports nothing of tunctl, opens nothing and decides nothing. The
// names of fields in JSON are a contract with scripts; see the README.
package api

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

// Version is the version of the local API and of the status document.
const Version = 1

// Status is everything the agent knows, as one document.
type Status struct {
	Version  int       `json:"version"`
	Agent    *Agent    `json:"agent,omitempty"`
	Config   *Problem  `json:"config,omitempty"`
	Hosts    []Host    `json:"hosts"`
	Sessions []Session `json:"sessions"`
}

// Agent describes the running agent process.
type Agent struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	Log     string    `json:"log,omitempty"`
	// Paused says that the agent restores no connection until the user acts, and why.
	Paused *Problem `json:"paused,omitempty"`
	// Desktop says that a tray watches which shows the questions of hosts in dialogs.
	Desktop bool `json:"desktop,omitempty"`
	// Streams are the shells, copies and connections of clients, which end with the agent.
	Streams []OpenStream `json:"streams,omitempty"`
}

// Problem is a lasting problem, such as a config file with errors.
type Problem struct {
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// Session returns the session with that name.
func (s *Status) Session(name string) (Session, bool) {
	for _, x := range s.Sessions {
		if x.Name == name {
			return x, true
		}
	}
	return Session{}, false
}

// Only is the status of one session, with its host.
func (s Status) Only(session Session) Status {
	s.Sessions = []Session{session}
	s.Hosts = slices.DeleteFunc(slices.Clone(s.Hosts), func(h Host) bool { return h.Alias != session.Host })
	return s
}

// Call is a request of the local API as the agent serves it and its clients send it: a
// pattern of http.ServeMux, with the types of its body and of its answer. A call whose
// input is [url.Values] has a query in place of a body. The answer to one that streams is
// a value per line.
type Call[In, Out any] string

// None is the body or the answer of a call that has none.
type None = struct{}

// Request is the call's method, and its path with the wildcards replaced in order.
func (c Call[In, Out]) Request(values ...string) (method, path string) {
	method, path, _ = strings.Cut(string(c), " ")
	for _, value := range values {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(value) + after
	}
	return method, path
}

// The calls of the local API.
const (
	CallStatus        Call[None, Status]                    = "GET /v1/status"
	CallWatch         Call[url.Values, Event]               = "GET /v1/watch" // streams
	CallUsage         Call[url.Values, Usage]               = "GET /v1/usage" // streams
	CallUp            Call[UpRequest, UpResponse]           = "POST /v1/up"
	CallPreview       Call[PreviewRequest, Preview]         = "POST /v1/preview"  // streams
	CallEndJobs       Call[EndJobsRequest, EndJobsProgress] = "POST /v1/end-jobs" // streams
	CallDown          Call[DownRequest, DownResponse]       = "POST /v1/down"
	CallAssistantUp   Call[AssistantRequest, UpResponse]    = "POST /v1/assistant/up"
	CallAssistantDown Call[AssistantRequest, DownResponse]  = "POST /v1/assistant/down"
	CallForward       Call[ForwardRequest, ForwardResponse] = "POST /v1/forward"
	CallExtend        Call[ExtendRequest, JobResponse]      = "POST /v1/extend"
	CallCheck         Call[CheckRequest, CheckResponse]     = "POST /v1/check"
	CallRefresh       Call[RefreshRequest, Status]          = "POST /v1/refresh"
	CallReload        Call[None, None]                      = "POST /v1/reload"
	CallAttach        Call[AttachRequest, AttachResponse]   = "POST /v1/attach"
	CallQuota         Call[QuotaRequest, QuotaResponse]     = "POST /v1/quota"
	CallBalances      Call[None, []HostBalances]            = "GET /v1/balances"
	CallHistory       Call[None, HistoryResponse]           = "GET /v1/history"
	CallLogin         Call[LoginRequest, Host]              = "POST /v1/login"
	CallLogout        Call[LoginRequest, Host]              = "POST /v1/logout"
	CallStop          Call[None, None]                      = "POST /v1/stop"
	CallOpen          Call[None, OpenResponse]              = "POST /v1/sessions/{name}/open"
	CallOpenEndpoint  Call[None, OpenResponse]              = "POST /v1/sessions/{name}/endpoints/{endpoint}/open"
	CallClientPage    Call[ClientPageRequest, OpenResponse] = "POST /v1/sessions/{name}/client"
	CallLog           Call[url.Values, LogChunk]            = "GET /v1/sessions/{name}/log" // streams
	CallKept          Call[KeptRequest, None]               = "POST /v1/sessions/{name}/kept"
	CallChoices       Call[url.Values, ChoicesResponse]     = "GET /v1/sessions/{name}/choices"
	CallAnswer        Call[Answer, None]                    = "POST /v1/prompts/{id}"
	CallStream        Call[StreamRequest, None]             = "POST /v1/stream" // upgrades the connection
	CallScheduler     Call[None, SchedulerResponse]         = "GET /v1/hosts/{host}/scheduler"
	CallOfferKey      Call[None, KeyOffer]                  = "POST /v1/hosts/{host}/key/offer"
	CallInstallKey    Call[KeyRequest, Key]                 = "POST /v1/hosts/{host}/key"
	CallRemoveKey     Call[None, Key]                       = "DELETE /v1/hosts/{host}/key"
	CallLook          Call[None, Look]                      = "POST /v1/hosts/{host}/look"
	CallFree          Call[None, Free]                      = "POST /v1/hosts/{host}/free"
	CallJobs          Call[url.Values, JobsResponse]        = "GET /v1/hosts/{host}/jobs"
	CallLastJobs      Call[None, JobsResponse]              = "GET /v1/hosts/{host}/last-jobs"
	CallSubmit        Call[SubmitRequest, JobResponse]      = "POST /v1/hosts/{host}/jobs"
	CallJob           Call[None, JobResponse]               = "GET /v1/hosts/{host}/jobs/{id}"
	CallJobLog        Call[url.Values, LogChunk]            = "GET /v1/hosts/{host}/jobs/{id}/log" // streams
	CallCancel        Call[None, JobResponse]               = "DELETE /v1/hosts/{host}/jobs/{id}"
)

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
	Error    string      `json:"error,omitempty"` // why the host does not listen for it, or why its last connection failed
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
