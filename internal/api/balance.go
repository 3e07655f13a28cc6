package api

import (
	"fmt"
	"strings"
	"time"
)

// Balance is one number that a site's tools tell about the user's allocation or disk space.
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

// FullText says which folder of the host is full, by these balances; "" if none is. Allocations are no folders.
func (b HostBalances) FullText() string {
	for _, x := range b.Balances {
		isFolder := strings.Contains(x.Name, "/") || strings.Contains(strings.ToLower(x.Name), "home")
		if isFolder && x.Total > 0 && x.Used >= x.Total {
			return fmt.Sprintf("%s on %s is full (%g of %g %s): free disk space; `tunctl quota %s --refresh` looks again", x.Name, b.Host, x.Used, x.Total, x.Unit, b.Host)
		}
	}
	return ""
}
