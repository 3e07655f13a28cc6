// Package realtest holds the tests of jobwatch against a real Slurm, which the lab of
// real parts provides; they are a package of their own since the lab ends with its
// test process.
package realtest
