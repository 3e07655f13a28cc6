// Package must ends tests whose preparations fail.
package must

import "testing"

// Do ends a test at an error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
