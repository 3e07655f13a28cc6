// Package arrows holds the test that keeps the packages' imports pointing the way
// the architecture says. It has no code of its own.
package arrows
