package action

import (
	"testing"
	"time"
)

func TestASpanOfTimeIsAsPeopleAndSchedulersWriteIt(t *testing.T) {
	for text, want := range map[string]time.Duration{"30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "1:30:00": 90 * time.Minute, "1-00:00:00": 24 * time.Hour, "2-12": 60 * time.Hour, "1-06:30": 30*time.Hour + 30*time.Minute, "30d": 30 * 24 * time.Hour, "1d12h": 36 * time.Hour} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("parseSpan(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "90", "2:15", "30:00", "-1h", "soon", "1:2:3:4", ":", "0m", "1:-5", "d", "-1d", "1-", "1-1h", "1d-2h", "0d", "1-2-3", "1d 2h"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("parseSpan(%q) = %v", text, got)
		}
	}
}
