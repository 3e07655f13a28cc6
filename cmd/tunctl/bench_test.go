package main

import "testing"

// BenchmarkStatus is a whole `tunctl status` with an agent running, as a person
// waits for it.
func BenchmarkStatus(b *testing.B) {
	s := newSandbox(b)
	s.run("agent", "start")
	for b.Loop() {
		s.run("status")
	}
}
