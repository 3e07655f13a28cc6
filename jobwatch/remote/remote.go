// Package remote runs scripts on the login node of a host, through a [Runner] that somebody else
// has: it does not know SSH.
//
// Every command sent to a host is a constant with a script on its standard input, so that a
// login shell has nothing to interpret. Everything inside the script is quoted. Nothing of
// tunctl keeps running on the host. [Limits] say how often a host may be asked for something.
package remote

import "context"

// Runner runs one command on the login node and returns its output. After an error it is
// not known whether the command was executed: the connection was lost, or ctx ended.
type Runner interface {
	Run(ctx context.Context, command string, stdin []byte) (Result, error)
}

// Result is what a command printed and its exit status.
type Result struct {
	Stdout, Stderr []byte
	Exit           int
}

// Turn is a lock whose waiters may give up. It holds a token while it is taken.
type Turn chan struct{}

// Take waits for the turn. release ends it.
func (t Turn) Take(ctx context.Context) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
