package api

import "time"

// Balance is one number that a site's tools tell about a person's allocation or disk space.
type Balance struct {
	Name  string  `json:"name"` // "def-alice GPU-hours", "/home"
	Used  float64 `json:"used"`
	Total float64 `json:"total,omitempty"` // 0: without a limit
	Unit  string  `json:"unit,omitempty"`  // "GPU-hours", "GB", "files"
}

// HostBalances are the balances of a host's site, as last read.
type HostBalances struct {
	Host     string    `json:"host"`
	Balances []Balance `json:"balances"`
	At       time.Time `json:"at"`
}
