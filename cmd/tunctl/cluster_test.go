package main

import (
	"bufio"
	"io"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"tunctl/internal/lab"
)

// clusters are the scripts' practice clusters, by script.
var clusters sync.Map

func clusterOf(ts *testscript.TestScript) *lab.Cluster {
	c, ok := clusters.Load(ts.Name() + ts.MkAbs(""))
	if !ok {
		ts.Fatalf("the script has no cluster yet")
	}
	return c.(*lab.Cluster)
}

// waitForWords reads lines until one has all the words.
func waitForWords(r io.Reader, words []string) bool {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		missing := 0
		for _, w := range words {
			if !strings.Contains(lines.Text(), w) {
				missing++
			}
		}
		if missing == 0 {
			return true
		}
	}
	return false
}

// oneLogin checks that the cluster was logged in to once.
func oneLogin(ts *testscript.TestScript, _ bool, _ []string) {
	if n := clusterOf(ts).Logins(); n != 1 {
		ts.Fatalf("%d logins", n)
	}
}
