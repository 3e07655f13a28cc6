// Package ptytest is a person at a terminal, for tests: it runs a program in a
// pseudo-terminal, waits for what it says, and types. It knows nothing of tunctl.
package ptytest
