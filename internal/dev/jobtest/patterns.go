package jobtest

import (
	"slices"

	"tunctl/jobwatch/sched"
)

// CompilePatterns compiles the patterns of messages, which are otherwise compiled when they are
// needed. It panics if one is no pattern.
func CompilePatterns(messages ...[]sched.Message) {
	for _, m := range slices.Concat(messages...) {
		m.Pattern()
	}
}
