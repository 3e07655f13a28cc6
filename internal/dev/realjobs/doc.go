// Package realjobs has the tests of jobwatch with a real Slurm, which internal/dev/real
// provides. They are a separate package because that lab ends with its test process.
package realjobs
