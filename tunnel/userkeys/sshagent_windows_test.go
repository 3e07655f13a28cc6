package userkeys

import (
	"regexp"
	"testing"
)

func TestPageantsPipeIsTheSameEachTime(t *testing.T) {
	first, err := pageantPipe()
	if err != nil {
		t.Fatal(err)
	}
	again, err := pageantPipe()
	if err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
	if !regexp.MustCompile(`^\\\\\.\\pipe\\pageant\.[^\\]+\.[0-9a-f]{64}$`).MatchString(first) {
		t.Errorf("pipe %q", first)
	}
}
