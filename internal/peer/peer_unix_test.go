//go:build unix && !linux

package peer

import "testing"

func TestLsofNamesTheHolder(t *testing.T) {
	for out, want := range map[string]Holder{
		"p4242\ncPython\nf7\np4243\ncnode\n": {Name: "Python", PID: 4242},
		"p17\n":                              {PID: 17},
		"":                                   {},
	} {
		if got := lsofHolder(out); got != want {
			t.Errorf("%q: %+v", out, got)
		}
	}
}
