//go:build unix && !linux

package tunnel

import "testing"

func TestLsofNamesTheHolder(t *testing.T) {
	for out, want := range map[string]holder{
		"p4242\ncPython\nf7\np4243\ncnode\n": {name: "Python", pid: 4242},
		"p17\n":                              {pid: 17},
		"":                                   {},
	} {
		if got := lsofHolder(out); got != want {
			t.Errorf("%q: %+v", out, got)
		}
	}
}
