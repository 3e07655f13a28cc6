package api

// CheckResult is what came of a check.
type CheckResult string

// The results of checks.
const (
	CheckOK      CheckResult = "ok"
	CheckBad     CheckResult = "bad"
	CheckUnknown CheckResult = "unknown" // it could not be looked at, or proves nothing
)

// Check is one thing that `tunctl doctor` looked at.
type Check struct {
	About  string      `json:"about,omitempty"` // the host or the session; empty: this machine
	Name   string      `json:"name"`
	Result CheckResult `json:"result"`
	Text   string      `json:"text"`
	Mend   string      `json:"mend,omitempty"` // what a person can do about it
}
