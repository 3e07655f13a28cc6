package sched

import "testing"

func TestEveryCommonPatternCompiles(*testing.T) {
	for _, r := range commonRefusals {
		r.Words() // panics if it is no pattern
	}
}
