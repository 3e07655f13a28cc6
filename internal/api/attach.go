package api

import "time"

// AttachRequest asks to bring up a session for a job that somebody started by hand.
type AttachRequest struct {
	Host string `json:"host"`
	Job  string `json:"job,omitempty"`  // its id; empty: the one that runs
	Name string `json:"name,omitempty"` // what to call the session
	Env  Env    `json:"env,omitempty"`
}

// AttachResponse is the session as it was right after the request took effect, or
// the jobs to choose from where there is no telling which is meant.
type AttachResponse struct {
	Session    *Session    `json:"session,omitempty"`
	At         time.Time   `json:"at,omitzero"`
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a job that a person may mean, with what its log says it serves.
type Candidate struct {
	Job   Job    `json:"job"`
	App   string `json:"app,omitempty"`
	Serve string `json:"serves,omitempty"` // where, in words
}

// QuotaRequest asks for what a host's site tells about balances and quotas.
type QuotaRequest struct {
	Host string `json:"host"`
}

// QuotaResponse is what the site's own programs said.
type QuotaResponse struct {
	Site    string          `json:"site,omitempty"`
	Reports []CommandReport `json:"reports"`
}

// CommandReport is what a program on a host printed.
type CommandReport struct {
	Command string `json:"command"`
	Output  string `json:"output,omitempty"`
	Exit    int    `json:"exit"`
}
