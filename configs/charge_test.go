package configs

import (
	"strings"
	"testing"
	"time"
)

func TestTheCostIsInTheSitesUnitsWhereItHasThem(t *testing.T) {
	priced := Charge{Unit: "SU", CoreHour: 1, GPUHour: 64}
	for want, got := range map[string]string{
		"": priced.cost(0, 2, 1, 0),
		"128 SU for 2 GPU-hours, 4 SU for 4 core-hours": priced.cost(2*time.Hour, 2, 1, 1),
		"0.5 SU for 0.5 core-hours":                     priced.cost(30*time.Minute, 1, 0, 0),
		"1 SU for 1 core-hour":                          priced.cost(time.Hour, 1, 0, 0),
		"16 GPU-hours, 32 core-hours":                   (&Charge{}).cost(8*time.Hour, 4, 2, 0),
		"4 core-minutes":                                (&Charge{}).cost(4*time.Minute, 1, 0, 0),
		"24 node-hours":                                 (&Charge{}).cost(12*time.Hour, 0, 0, 2),
		"12.67 core-hours":                              (&Charge{}).cost(19*time.Minute, 40, 0, 0),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if words := priced.Words(); words != "a core-hour costs 1 SU, a GPU-hour costs 64 SU" {
		t.Errorf("in words: %s", words)
	}
}

func TestAPriceMustBeANumber(t *testing.T) {
	read := func(text string) (Site, error) {
		return parseSite("priced.toml", "priced", []byte("title = \"Priced\"\n"+text), func(string) (Site, bool) { return Site{}, false })
	}
	s, err := read("charge = { unit = \"SU\", core_hour = 1, gpu_hour = 6.4, node_hour = 128 }\n")
	if want := (Charge{Unit: "SU", CoreHour: 1, GPUHour: 6.4, NodeHour: 128}); err != nil || s.Charge != want {
		t.Errorf("%+v, %v", s.Charge, err)
	}
	for _, bad := range []string{`charge = { core_hour = "dear" }`, `charge = { gpu_hour = -1 }`, `charge = 1`} {
		if _, err := read(bad + "\n"); err == nil || !strings.Contains(err.Error(), "priced.toml:2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := read("charge = { core_hour = 1 }\n"); err == nil || !strings.Contains(err.Error(), "unit") {
		t.Errorf("prices without a unit: %v", err)
	}
}
