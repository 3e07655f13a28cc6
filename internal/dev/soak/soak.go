// Package soak holds the tests that use a forward without rest while its link is cut, refused
// and frozen again and again, and the pages of a session whose agents are killed besides. It has
// no code of its own.
//
// A plain "go test" gives it two seconds, TUNCTL_REAL=1 or CI=true fifteen, and
// TUNCTL_SOAK=10m, as in `make soak`, what it says.
package soak
