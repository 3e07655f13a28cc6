package api

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Env is the part of the user's environment that an agent started at login lacks.
// Every request has it; the agent uses the newest that works.
type Env map[string]string

// Environ is the process's own environment with the values of e added, as for exec.Cmd.
func (e Env) Environ() []string {
	all := os.Environ()
	for k, v := range e {
		all = append(all, k+"="+v)
	}
	return all
}

// EnvNames are the variables of an Env.
var EnvNames = []string{
	"SSH_AUTH_SOCK", "KRB5CCNAME", "PATH", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY",
}

// UpRequest asks to bring a session up. It permits one submission, for an hour.
type UpRequest struct {
	Session string `json:"session"`
	// Adopt permits none: the session finds its job, or says that it has ended.
	Adopt bool   `json:"adopt,omitempty"`
	Job   string `json:"job,omitempty"` // one of the session's Candidates
	// With are choices for this run; Again asks for those of the last run, which With adds to.
	With  Choices `json:"with,omitempty"`
	Again bool    `json:"again,omitempty"`
	// As makes a second session of that name, with its own job and port.
	As string `json:"as,omitempty"`
	// Waiter names the watch of a command that waits: the submission is permitted while it is
	// open.
	Waiter string `json:"waiter,omitempty"`
	Env    Env    `json:"env,omitempty"`
}

// UpResponse is the session right after the request took effect; events before At are
// about the time before it.
type UpResponse struct {
	Session Session   `json:"session"`
	At      time.Time `json:"at"`
}

// DownRequest asks to stop forwarding; Cancel also ends the jobs, for which it connects to their host.
type DownRequest struct {
	Session string `json:"session,omitempty"`
	All     bool   `json:"all,omitempty"`
	Cancel  bool   `json:"cancel,omitempty"`
	Env     Env    `json:"env,omitempty"` // with Cancel
}

// EndJobsRequest ends jobs one after another, also if the client leaves meanwhile.
type EndJobsRequest struct {
	Jobs []EndJob `json:"jobs"`
	Env  Env      `json:"env"`
}

// EndJob names a job on a host, or a session whose jobs end.
type EndJob struct {
	Session string `json:"session,omitempty"`
	Host    string `json:"host,omitempty"`
	Job     string `json:"job,omitempty"`
}

// EndJobsProgress says that so many jobs were ended or not, and why the last one was not.
type EndJobsProgress struct {
	Done  int    `json:"done"`
	Error *Error `json:"error,omitempty"`
}

// DownResponse lists what was taken down, with the jobs that keep running.
type DownResponse struct {
	Sessions []Session `json:"sessions"`
}

// KeyOffer says whether to offer the user a key for a host.
type KeyOffer struct {
	Offer bool `json:"offer"`
}

// KeyRequest asks for a key for a host.
type KeyRequest struct {
	Plain bool `json:"plain,omitempty"` // without a passphrase, which needs no keyring
	Env   Env  `json:"env"`             // of the user's keyring
}

// ClientPageRequest asks for the address of a session's page for other programs, with the session's
// local token.
type ClientPageRequest struct {
	New bool `json:"new,omitempty"` // and no earlier local token
}

// OpenResponse carries the whole URL of a session's page, token included, and the
// password for its login page. It is the only response that does, and only over the
// agent's private socket.
type OpenResponse struct {
	URL      string `json:"url"`
	App      string `json:"app,omitempty"`
	User     string `json:"user,omitempty"` // for the login page, if its password is known
	Password string `json:"password,omitempty"`
}

// ConnectText says how to use what is no page to look at; "" for a page.
func (r *OpenResponse) ConnectText() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return ""
	}
	switch r.App {
	case "paraview":
		return fmt.Sprintf("connect ParaView to %s: File > Connect, or `paraview --server-url=cs://%[1]s`", u.Host)
	case "vllm":
		return fmt.Sprintf("the model's API (as OpenAI's) is at http://%s/v1", u.Host)
	case "ollama":
		return fmt.Sprintf("set OLLAMA_HOST=%s for `ollama`; the API is at http://%[1]s/api", u.Host)
	}
	return ""
}

// LogChunk is a part of a job's log.
type LogChunk struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
	// Base64 replaces Text if the part is not UTF-8, which JSON cannot hold.
	Base64 []byte `json:"base64,omitempty"`
	// Lines replace Text if they were requested. Open: the last one has not ended, and is the first of
	// the next chunk again.
	Lines []LogLine `json:"lines,omitempty"`
	Open  bool      `json:"open,omitempty"`
	// Restarted says that the log starts again: it was replaced or truncated.
	Restarted bool `json:"restarted,omitempty"`
	// Ended says how the job ended: nothing is added to the log any more.
	Ended string `json:"ended,omitempty"`
	// Job is the job as the scheduler reports it now; the other fields are empty then.
	Job *Job `json:"job,omitempty"`
}

// LogLine is a line as a terminal would show it, in parts of one style each.
type LogLine []LogSpan

// LogSpan is a part of a line, safe to show. Its style is "", "bold", a colour such as "red", or "bold red".
type LogSpan struct {
	Text  string `json:"text"`
	Style string `json:"style,omitempty"`
}

// SetBytes sets the content.
func (c *LogChunk) SetBytes(data []byte) {
	c.Text, c.Base64 = string(data), nil
	if !utf8.Valid(data) {
		c.Text, c.Base64 = "", data
	}
}

// Bytes is the content as the job wrote it.
func (c LogChunk) Bytes() []byte {
	if c.Base64 != nil {
		return c.Base64
	}
	return []byte(c.Text)
}

// LogQuery says which part of which log to read: a session's, or a job's on a host.
type LogQuery struct {
	Session   string
	Host, Job string
	Follow    bool
	Secrets   bool
	Lines     bool // see LogChunk
	// Whole: of a log that is followed, nothing is left out however long it is, and the job's states are
	// sent, too.
	Whole bool
	// Tail: only that many lines at the end. Unless the log is followed, they are as a terminal
	// would show them, and without secrets.
	Tail int
}

// Answers says how a client that watches events can ask the user.
type Answers string

// How a client can ask the user. Prompts go to the client that caused them; if that
// cannot ask, a desktop does.
const (
	AnswersNone     Answers = ""
	AnswersTerminal Answers = "terminal"
	AnswersDesktop  Answers = "desktop"
	AnswersApproval Answers = "approval" // a terminal that waits for what assistants ask
)

// AssistantRequest is what an assistant asks for: a session up, or down. The user must
// approve it.
type AssistantRequest struct {
	Assistant string `json:"assistant"` // its name, for the user
	Session   string `json:"session"`
	Cancel    bool   `json:"cancel,omitempty"` // of a down: end the job, too
	Env       Env    `json:"env,omitempty"`
}

// LoginRequest asks to log in to a host now, or to disconnect from it.
type LoginRequest struct {
	Host string `json:"host"`
	Env  Env    `json:"env,omitempty"`
}

// ExtendRequest asks for more time for a session's job.
type ExtendRequest struct {
	Session string `json:"session"`
	Seconds int64  `json:"seconds"` // how much longer it may run
	// Idle has the job count as used now, for end_idle, in place of asking the scheduler.
	Idle bool `json:"idle,omitempty"`
}

// KeptRequest says how many cells of a session that are over have output on its host, as a user has found.
type KeptRequest struct {
	Cells int `json:"cells"`
}

// RefreshRequest asks to query the schedulers of connected hosts now.
type RefreshRequest struct {
	Session string `json:"session,omitempty"` // only this one's host
}

// CheckRequest asks the agent to check a host, or a session and its host, over the
// existing connection.
type CheckRequest struct {
	Host    string `json:"host"`
	Session string `json:"session,omitempty"`
}

// CheckResponse lists the results.
type CheckResponse struct {
	Checks []Check `json:"checks"`
}

// ForwardRequest asks for forwards that are in no config. Those through a host are a
// separate session, which ends with its down. Those of a session lead to the node that
// its job runs on; they are added to the session's own until its down.
type ForwardRequest struct {
	Host    string   `json:"host,omitempty"`
	Session string   `json:"session,omitempty"` // in place of Host; it must be up
	Specs   []string `json:"specs"`             // as in the config: "6006", "5432:db.int:5432", "R:9000:localhost:9000", "D:1080"
	Bind    string   `json:"bind,omitempty"`    // where to listen instead of loopback; "*" for all interfaces
	Remove  bool     `json:"remove,omitempty"`  // end those of the session instead
	Env     Env      `json:"env,omitempty"`
}

// ForwardResponse is the session right after the request took effect, as in UpResponse.
type ForwardResponse struct {
	UpResponse
	Forwards []Forward `json:"forwards"` // those of the request, if it was about a session
}

// AttachRequest asks for a session for a job that was started by hand.
type AttachRequest struct {
	Host string `json:"host"`
	Job  string `json:"job,omitempty"`  // its ID; empty for the running one
	Name string `json:"name,omitempty"` // of the session
	Env  Env    `json:"env,omitempty"`
}

// AttachResponse is the session right after the request took effect, or the jobs to
// choose from if the request matches several.
type AttachResponse struct {
	Session    *Session    `json:"session,omitempty"`
	At         time.Time   `json:"at,omitzero"`
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a job to choose, with the server that its log announces.
type Candidate struct {
	Job   Job    `json:"job"`
	App   string `json:"app,omitempty"`
	Serve string `json:"serves,omitempty"` // where, in words
}

// QuotaRequest asks for the balances and quotas of a host's site.
type QuotaRequest struct {
	Host    string `json:"host"`
	Refresh bool   `json:"refresh,omitempty"` // run the commands now, whatever is known
}

// QuotaResponse is what the quota commands of the site printed.
type QuotaResponse struct {
	Site string    `json:"site,omitempty"`
	At   time.Time `json:"at,omitzero"` // when the commands ran; for an hour the response is repeated
	// Balances are the numbers in the reports, where the site's file says how to read them.
	Balances []Balance       `json:"balances,omitempty"`
	Reports  []CommandReport `json:"reports"`
}

// CommandReport is what a command on a host printed.
type CommandReport struct {
	Command string `json:"command"`
	Output  string `json:"output,omitempty"`
	Exit    int    `json:"exit"`
	Read    bool   `json:"read,omitempty"` // its numbers are among the Balances
}

// JobsResponse lists the user's jobs on a host.
type JobsResponse struct {
	Jobs []Job `json:"jobs"`
}

// SchedulerResponse names the scheduler of a host, as in the config: "slurm", "none".
type SchedulerResponse struct {
	Scheduler string `json:"scheduler"`
}

// SubmitRequest asks to submit a job that belongs to no session.
type SubmitRequest struct {
	// Script is as in a session's submit: a path on the host, or local:/path on this computer.
	Script  string   `json:"script"`
	Args    []string `json:"args,omitempty"` // extra options for the scheduler
	Workdir string   `json:"workdir,omitempty"`
	// Command, in place of a script, is run once: with the settings of a session if there is one, and
	// With. Mark is in the line at the end of its log: see configs.RunEnd.
	Command []string `json:"command,omitempty"`
	Mark    string   `json:"mark,omitempty"`
	Session string   `json:"session,omitempty"`
	With    Choices  `json:"with,omitempty"`
}

// JobResponse is one job, as it is after the request.
type JobResponse struct {
	Job Job `json:"job"`
}

// Choices are the user's answers for one run of a session, by the names of the site's
// questions: "gpus" → "2", "hours" → "8".
type Choices map[string]string

// String is the choices as text: "gpus=2, hours=8".
func (c Choices) String() string { return c.join("", ", ") }

// Flags are the choices as flags of a command: "--with gpus=2 --with hours=8".
func (c Choices) Flags() string { return c.join("--with ", " ") }

func (c Choices) join(before, between string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, before+name+"="+c[name])
	}
	return strings.Join(parts, between)
}

// ChoicesResponse is what may be chosen for a session's next run.
type ChoicesResponse struct {
	Options []Option  `json:"options"`
	Recent  []Choices `json:"recent"` // of earlier runs, the newest first, at most five
}

// Option is one thing to choose.
type Option struct {
	Name    string   `json:"name"`
	Ask     string   `json:"ask"`               // the question in words
	Value   string   `json:"value,omitempty"`   // what the next run uses without a choice
	Choices []string `json:"choices,omitempty"` // all that are valid, if they can be listed
	Known   []string `json:"known,omitempty"`   // what the host has, as far as it is known
	Script  string   `json:"script,omitempty"`  // what the job script has, if it was read
}

// PreviewRequest asks what an up would submit, once for each of With. Nothing is submitted.
type PreviewRequest struct {
	Session string    `json:"session"`
	With    []Choices `json:"with"` // at most four; one empty set: as the config has it
	// NoStart leaves out when the scheduler would start it, which is a query.
	NoStart bool `json:"noStart,omitempty"`
}

// Preview is what an up would submit, with what is known of its cost and start.
type Preview struct {
	With    Choices `json:"with,omitempty"`
	Command string  `json:"command,omitempty"` // on the host
	Script  string  `json:"script,omitempty"`
	Cost    string  `json:"cost,omitempty"` // in the site's units: "16 GPU-hours"
	// Refused is what the scheduler has against it: it would not accept the job as it is.
	Refused string `json:"refused,omitempty"`
	// Start is when the scheduler would start it, an estimate; Why says why there is none.
	Start  time.Time `json:"start,omitzero"`
	Why    string    `json:"why,omitempty"`
	Waited string    `json:"waited,omitempty"` // what earlier jobs waited, in words
}

// Balance is one number that a site's tools tell about the user's allocation or disk space.
type Balance struct {
	Name  string  `json:"name"` // "def-alice GPU-hours", "/home"
	Used  float64 `json:"used"`
	Total float64 `json:"total,omitempty"` // 0: without a limit
	Unit  string  `json:"unit,omitempty"`  // "GPU-hours", "GB", "files"
}

// HostBalances are the balances of a host's site, as last read.
type HostBalances struct {
	Host     string    `json:"host"`
	Balances []Balance `json:"balances"`
	At       time.Time `json:"at"`
}

// FullText says which folder of the host is full, by these balances; "" if none is. Allocations are no folders.
func (b HostBalances) FullText() string {
	for _, x := range b.Balances {
		isFolder := strings.Contains(x.Name, "/") || strings.Contains(strings.ToLower(x.Name), "home")
		if isFolder && x.Total > 0 && x.Used >= x.Total {
			return fmt.Sprintf("%s on %s is full (%g of %g %s): free disk space; `tunctl quota %s --refresh` looks again", x.Name, b.Host, x.Used, x.Total, x.Unit, b.Host)
		}
	}
	return ""
}
