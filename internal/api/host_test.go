package api

import "testing"

func TestTheLabelOfAHostTellsTheWayThere(t *testing.T) {
	for name, want := range map[string]string{
		"narval":             "narval",
		"narval,nc10201":     "nc10201 through narval",
		"gate,narval,nc1020": "nc1020 through gate, narval",
	} {
		if got := HostLabel(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
