// Package api has the types of the local API: states, jobs, endpoints, forwards, the
// status, events, prompts, requests and errors. The agent, its clients, the tunnel and
// the job watchers all use them.
//
// It is a leaf: it imports nothing of tunctl, opens nothing and decides nothing. The
// names of fields in JSON are a contract with scripts; see the README.
package api

import (
	"slices"
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
