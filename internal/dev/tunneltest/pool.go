// Package tunneltest makes pools of hosts for the tests of what is above package tunnel.
package tunneltest

import (
	"cmp"
	"log/slog"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel"
	"tunctl/tunnel/sshconfig"
)

// NewPool makes a pool with an ssh_config. What the options leave out is that of a user who is away, on a computer
// that remembers nothing.
func NewPool(sshConfig string, o tunnel.Options) *tunnel.Pool {
	if o.Resolver == nil {
		o.Resolver = func() sshconfig.Resolver { return sshconfig.Resolver{SSHConfig: sshConfig} }
	}
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
