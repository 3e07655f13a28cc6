package winetest

import "tunctl/internal/dev/wait"

// patience bounds every wait of these tests; none is meant to take it.
const patience = wait.Limit
