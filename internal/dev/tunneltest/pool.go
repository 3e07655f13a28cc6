// Package tunneltest makes pools of hosts for the tests of what is above package tunnel.
package tunneltest

import (
	"cmp"
	"log/slog"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel"
)

// NewPool makes a pool. What the options leave out is that of a user who is away, on a computer
// that remembers nothing.
func NewPool(o tunnel.Options) *tunnel.Pool {
	o.Prompter = cmp.Or[tunnel.Prompter](o.Prompter, sshtest.Nobody{})
	o.Memory = sshtest.NewMemory()
	o.Passwords = sshtest.NoPasswords{}
	o.Log = slog.New(slog.DiscardHandler)
	o.Changed = func(api.Host) {}
	o.Spelling = func(string) tunnel.Spelling { return tunnel.Spelling{Written: true} }
	if o.Envs == nil {
		o.Envs = func() []api.Env { return []api.Env{nil} }
	}
	return tunnel.NewPool(o)
}
