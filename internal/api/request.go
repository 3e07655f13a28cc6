package api

// Env is what an agent started at login lacks of the person's environment. Every
// request carries it; the agent uses the newest that answers.
type Env map[string]string

// EnvNames are the variables that travel in an Env.
var EnvNames = []string{
	"SSH_AUTH_SOCK", "KRB5CCNAME", "PATH", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY",
}

// UpRequest asks to bring a session up. It permits one submission.
type UpRequest struct {
	Session string `json:"session"`
	Env     Env    `json:"env,omitempty"`
}

// DownRequest asks to stop forwarding; Cancel also ends the job.
type DownRequest struct {
	Session string `json:"session,omitempty"`
	All     bool   `json:"all,omitempty"`
	Cancel  bool   `json:"cancel,omitempty"`
}

// DownResponse lists what was taken down, with the jobs that run on.
type DownResponse struct {
	Sessions []Session `json:"sessions"`
}

// OpenResponse carries the whole URL of a session's page, token included. It is
// the one answer that does, and only over the agent's private socket.
type OpenResponse struct {
	URL string `json:"url"`
}

// LogResponse is a stretch of a job's log, from Offset to Next.
type LogResponse struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Next   int64  `json:"next"`
	Text   []byte `json:"text"`
}
