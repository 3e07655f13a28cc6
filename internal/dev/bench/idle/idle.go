// Package idle measures what the agent and the tray cost while a session is up and
// nobody uses it: memory, and how often they wake the processor. It has no code but
// its benchmark:
//
//	go test -run '^$' -bench Idle ./internal/dev/bench/idle
package idle
