package api

import "encoding/json"

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
	Fix    string      `json:"fix,omitempty"` // what a person can do about it
}

// MarshalJSON writes the fix under its old key `mend` too, for one release.
func (c Check) MarshalJSON() ([]byte, error) {
	type plain Check
	return json.Marshal(struct {
		plain
		Mend string `json:"mend,omitempty"`
	}{plain(c), c.Fix})
}
