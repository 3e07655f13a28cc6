// Package messages checks that every error message of the program is in the docs:
// docs/errors.md lists them all, made from the code, and docs/troubleshooting.md has
// the cause and the way out of each that a person can meet. It holds tests only.
package messages
