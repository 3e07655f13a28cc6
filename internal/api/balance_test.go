package api

import "testing"

func TestBalancesFull(t *testing.T) {
	for want, b := range map[string]Balance{
		"/home/ann on hpc is full (50 of 50 GB): free disk space; `tunctl quota hpc --refresh` looks again": {Name: "/home/ann", Used: 50, Total: 50, Unit: "GB"},
		"": {Name: "def-ann", Used: 900, Total: 800, Unit: "core-hours"},
	} {
		if got := (HostBalances{Host: "hpc", Balances: []Balance{b}}).FullText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (HostBalances{Balances: []Balance{{Name: "/scratch", Used: 5}, {Name: "home", Used: 1, Total: 2}}}).FullText(); got != "" {
		t.Errorf("%q", got)
	}
}
