package jobtest

import "tunctl/jobwatch/sched"

// CompilePatterns compiles the patterns of messages, which are otherwise compiled when they are
// needed. It panics if one is no pattern.
func CompilePatterns(refusals []sched.RefusalHint, waits []sched.WaitReason) {
	for _, r := range refusals {
		r.Words()
	}
	for _, w := range waits {
		w.Part()
	}
}
