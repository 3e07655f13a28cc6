// Package realssh holds the tests of tunnel against real OpenSSH servers, which the
// lab of real parts provides, and of the built program's questions at a terminal.
// They are a package of their own since the lab ends with its test process.
package realssh
