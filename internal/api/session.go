package api

import (
	"net/url"
	"time"
)

// SessionState is where a session stands on its way to an open page.
type SessionState string

// The states of a session.
const (
	SessionDown         SessionState = "down"
	SessionConnecting   SessionState = "connecting"
	SessionNeedsLogin   SessionState = "needs-login"
	SessionSubmitting   SessionState = "submitting"
	SessionQueued       SessionState = "queued"
	SessionStarting     SessionState = "starting"
	SessionReady        SessionState = "ready"
	SessionReconnecting SessionState = "reconnecting"
	SessionEnded        SessionState = "ended"
	SessionFailed       SessionState = "failed"
)

// Settled reports whether the state stays as it is until a person acts: nothing
// more happens by itself.
func (s SessionState) Settled() bool {
	switch s {
	case SessionDown, SessionNeedsLogin, SessionEnded, SessionFailed:
		return true
	}
	return false
}

// Session is the thing a person brings up by name.
type Session struct {
	Name     string       `json:"name"`
	Host     string       `json:"host"`
	State    SessionState `json:"state"`
	Cause    string       `json:"cause,omitempty"`
	Hint     string       `json:"hint,omitempty"`
	Since    time.Time    `json:"since,omitzero"`
	Job      *Job         `json:"job,omitempty"`
	Next     *Job         `json:"next,omitempty"`
	Endpoint *Endpoint    `json:"endpoint,omitempty"`
	Local    string       `json:"local,omitempty"`
	URL      string       `json:"url,omitempty"`
	Forwards []Forward    `json:"forwards"`
}

// PageURL is the address of the endpoint's page as the local browser reaches it
// at local ("127.0.0.1:8888"), without its token.
func (e *Endpoint) PageURL(local string) *url.URL {
	scheme := e.Scheme
	if scheme == "" {
		scheme = "http"
	}
	path := e.Path
	if path == "" {
		path = "/"
	}
	return &url.URL{Scheme: scheme, Host: local, Path: path}
}
