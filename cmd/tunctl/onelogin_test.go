package main

import "github.com/rogpeppe/go-internal/testscript"

// oneLogin checks that the cluster was logged in to once.
func oneLogin(ts *testscript.TestScript, _ bool, _ []string) {
	if n := clusterOf(ts).Logins(); n != 1 {
		ts.Fatalf("%d logins", n)
	}
}
