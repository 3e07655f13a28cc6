// Package ptytest runs programs in a pseudo-terminal, for tests: it waits for their output
// and types. It knows nothing of tunctl.
package ptytest
