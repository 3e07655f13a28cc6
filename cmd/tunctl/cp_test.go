package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/transfer"
)

func TestASpotIsOnAHostOnlyWithAColonBeforeAnySlash(t *testing.T) {
	for text, want := range map[string]location{
		"data.csv":           {path: "data.csv"},
		"./a:b":              {path: "./a:b"},
		"/tmp/a:b":           {path: "/tmp/a:b"},
		":x":                 {path: ":x"},
		"narval:":            {"narval", "."},
		"narval:~":           {"narval", "."},
		"narval:~/x":         {"narval", "x"},
		"narval:/scratch/a":  {"narval", "/scratch/a"},
		"narval:a:b":         {"narval", "a:b"},
		"alice@narval:-rf x": {"alice@narval", "-rf x"},
	} {
		if got := parseLocation(text); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}

func TestGoingOnIsOfferedWhereSomethingWasLeft(t *testing.T) {
	failed := errors.New("no room left")
	for want, c := range map[string]transfer.Counts{"": {Total: 7}, "--resume": {Copied: 1, Total: 7}, "with --resume": {Skipped: 1, Total: 7}} {
		hint := ""
		if e, ok := errors.AsType[*api.Error](withResumeHint(failed, c)); ok {
			hint = e.Hint
		}
		if (hint == "") != (want == "") || !strings.Contains(hint, want) {
			t.Errorf("after %+v the hint is %q", c, hint)
		}
	}
}

func TestAnotherCopyHasAHintOfItsOwn(t *testing.T) {
	e, ok := errors.AsType[*api.Error](withResumeHint(fmt.Errorf("%q: %w", "a", transfer.ErrOtherCopy), transfer.Counts{}))
	if !ok || !strings.Contains(e.Hint, "other copy") {
		t.Errorf("%+v", e)
	}
}

func TestProgressTellsRateAndTimeLeft(t *testing.T) {
	m := meter{}
	start := time.Now()
	m.line(transfer.Counts{Total: 100e6, Of: 2, Listed: true}, start)
	line := m.line(transfer.Counts{Copied: 20e6, Skipped: 30e6, Total: 100e6, Files: 1, Of: 2, Listed: true}, start.Add(2*time.Second))
	for _, want := range []string{"50 MB of 100 MB", "1 of 2 files", "10 MB/s", "5 s left", strings.Repeat("█", barWidth/2) + " "} {
		if !strings.Contains(line, want) {
			t.Errorf("%q has no %q", line, want)
		}
	}
	if line := m.line(transfer.Counts{Total: 1}, start); !strings.Contains(line, "still listing") {
		t.Errorf("%q", line)
	}
}
