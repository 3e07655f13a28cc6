// Package e2e holds the tests that drive the built tunctl program against the
// cluster of real parts: sshd, Slurm, Jupyter and a browser. It has no code of
// its own.
package e2e
