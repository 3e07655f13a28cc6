package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// EventType says which field of an Event is set.
type EventType string

// The types of events on a watch stream.
const (
	EventStatus       EventType = "status"  // the whole status; the first event of a stream, and one after each change of the config
	EventSession      EventType = "session" // a session changed
	EventSessionGone  EventType = "session-gone"
	EventHost         EventType = "host"          // a host changed
	EventPrompt       EventType = "prompt"        // a question for the user at this client
	EventPromptClosed EventType = "prompt-closed" // answered elsewhere, or no longer asked
	EventNotice       EventType = "notice"        // something the user may want to know
)

// Event is one change on the agent's watch stream.
type Event struct {
	Type    EventType `json:"type"`
	Time    time.Time `json:"time"`
	Status  *Status   `json:"status,omitempty"`
	Session *Session  `json:"session,omitempty"`
	Host    *Host     `json:"host,omitempty"`
	Prompt  *Prompt   `json:"prompt,omitempty"`
	Notice  *Notice   `json:"notice,omitempty"`
}

// NoticeKind is what a notice is about, as the config's notify names it.
type NoticeKind string

// The kinds of notices. One without a kind is shown wherever there is a place for it.
const (
	NoticeTimeLimit  NoticeKind = "time-limit"  // the job's end is near, or what follows it
	NoticeNeedsLogin NoticeKind = "needs-login" // a host will soon need the user
	NoticeIdle       NoticeKind = "idle"        // a running job is not used
	NoticeConfig     NoticeKind = "config"      // the config has errors, as the status says from then on
)

// Notice is a message for the user about a session or a host. Its text reads as
// "title: body", where the title fits a notification (40 characters) and neither has a
// command in it.
type Notice struct {
	Kind    NoticeKind `json:"kind,omitempty"`
	Session string     `json:"session,omitempty"`
	Host    string     `json:"host,omitempty"`
	Text    string     `json:"text"`
}

// PromptKind is what a host or a key asks the user for.
type PromptKind string

// The kinds of prompts.
const (
	PromptPassword   PromptKind = "password"
	PromptPassphrase PromptKind = "passphrase" // of a private key
	PromptQuestion   PromptKind = "question"   // keyboard-interactive: a code, a menu, anything
	PromptHostKey    PromptKind = "hostkey"    // answered yes or no
	PromptConfirm    PromptKind = "confirm"    // answered yes or no
	PromptPage       PromptKind = "page"       // a page to open, while the server waits for that; any answer will do
	PromptApproval   PromptKind = "approval"   // of what an assistant asks for; answered yes or no
)

// Prompt is a question that only the user can answer.
type Prompt struct {
	ID          string     `json:"id"`
	Host        string     `json:"host"`
	Kind        PromptKind `json:"kind"`
	Text        string     `json:"text"` // of the server, or of tunctl
	Instruction string     `json:"instruction,omitempty"`
	Echo        bool       `json:"echo,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
	// Retry is set when the last answer was wrong, and says so with how many tries are
	// left: "that was not right; 2 more tries before tunctl stops".
	Retry string `json:"retry,omitempty"`
	// Links are the web addresses in the server's texts, complete, though very long texts
	// are cut.
	Links []string `json:"links,omitempty"`
	// LoginPage is the one of them that a client may open, if the user agrees: an https
	// page of a host that the site names in login_pages. Nothing else may be opened.
	LoginPage string `json:"loginPage,omitempty"`
	// Client is the client whose request caused the prompt; see ClientHeader. It alone
	// gets the prompt or, if it cannot ask the user, a desktop. An approval goes to
	// everybody who can ask the user but that client.
	Client string `json:"client,omitempty"`
}

// AskedElsewhere is the cause of a host or a session whose login waits for an answer.
const AskedElsewhere = "waiting for the login in another window"

// LoginSays begins a cause that has a server's words during a login, for the user alone:
// they may have a device code, which is a secret until it is used.
const LoginSays = "the login says: "

// WithoutLogin is a cause without a server's words during a login.
func WithoutLogin(cause string) string {
	if strings.HasPrefix(cause, LoginSays) {
		return "logging in"
	}
	return cause
}

// WithoutLogins is the status without what the logins say and ask, for those who do not log
// in: assistants, and readers of a bundle.
func (s Status) WithoutLogins() Status {
	s.Hosts, s.Sessions = slices.Clone(s.Hosts), slices.Clone(s.Sessions)
	for i := range s.Hosts {
		s.Hosts[i].Cause, s.Hosts[i].Links = WithoutLogin(s.Hosts[i].Cause), nil
	}
	for i := range s.Sessions {
		s.Sessions[i].Cause = WithoutLogin(s.Sessions[i].Cause)
	}
	return s
}

// ClientHeader is the HTTP header in which a client names itself, on its watch and on
// every request: a random text. Prompts go to the client that caused them.
const ClientHeader = "Tunctl-Client"

// ConfigHeader is the HTTP header with the config file, escaped as in the query of a URL, that
// a client insists on: an agent with another refuses the request.
const ConfigHeader = "Tunctl-Config"

// Answer is the user's answer to a prompt. It is sent in clear text over the agent's
// private socket, and nowhere else.
type Answer struct {
	Text      string `json:"text,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"`
	// Keep says where to keep a password that the host accepts.
	Keep Keep `json:"keep,omitempty"`
}

// RetryText says that an answer was wrong, and how many tries are left; see Prompt.Retry.
func RetryText(wrong string, left int) string {
	if left == 1 {
		return wrong + "; 1 more try before tunctl stops"
	}
	return fmt.Sprintf("%s; %d more tries before tunctl stops", wrong, left)
}

// IsYes reports whether the answer to a question is yes.
func (a Answer) IsYes() bool {
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(a.Text)))
}

// Keep is where a password is kept.
type Keep string

// The places for a password: none, the agent's memory until it stops, the system
// keyring.
const (
	KeepNot     Keep = ""
	KeepMemory  Keep = "memory"
	KeepKeyring Keep = "keyring"
)
