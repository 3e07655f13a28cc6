package api

// CheckResult is the result of a check.
type CheckResult string

// The results of checks.
const (
	CheckOK      CheckResult = "ok"
	CheckBad     CheckResult = "bad"
	CheckUnknown CheckResult = "unknown" // it could not be checked, or proves nothing
)

// Check is one check of `tunctl doctor`.
type Check struct {
	About  string      `json:"about,omitempty"` // the host or the session; empty: this machine
	Name   string      `json:"name"`
	Result CheckResult `json:"result"`
	Text   string      `json:"text"`
	Fix    string      `json:"fix,omitempty"` // what the user can do about it
}
