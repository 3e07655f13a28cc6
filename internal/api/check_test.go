package api

import (
	"encoding/json"
	"testing"
)

func TestAChecksFixIsWrittenUnderItsOldNameToo(t *testing.T) {
	got, err := json.Marshal([]Check{{Name: "disk", Result: CheckBad, Text: "full", Fix: "free some space"}})
	want := `[{"name":"disk","result":"bad","text":"full","fix":"free some space","mend":"free some space"}]`
	if err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
}
