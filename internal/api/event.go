package api

import "time"

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
