package winetest

import "time"

// patience bounds every wait of these tests; none is meant to take it.
const patience = 2 * time.Minute
