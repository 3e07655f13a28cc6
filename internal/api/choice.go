package api

import (
	"maps"
	"slices"
	"strings"
	"time"
)

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
