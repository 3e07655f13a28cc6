// Package tunnel keeps one SSH connection per host. The forwards over it are those of
// tunnel/forward, which this package does not know.
//
// A [Pool] owns the hosts; a [Host] is a login node by its name. Asking for a
// host dials nothing: [Host.Up] says that a person wants it now, [Host.Want] that
// it is wanted but nobody may be there, [Host.Down] that it is not. One goroutine
// per host turns such wishes into a connection: it reads the settings as OpenSSH
// would, dials (directly, through jump hosts or a proxy command), checks the host
// key, logs in, keeps the link alive and brings it back when it is lost, within
// limits that keep a person from being locked out ([Limits]).
//
// Questions to a person go through a [Prompter]; what a host must be remembered by
// goes through a [Memory]. The package knows nothing of jobs, of the config file
// or of the agent's API; it speaks in the types of internal/api.
package tunnel

import (
	"context"
	"errors"

	"tunctl/internal/api"
)

// GCPercent is the setting of Go's collector (debug.SetGCPercent) for a process that
// forwards. x/crypto allocates 32 KB for each packet; at the usual setting, a process
// of few megabytes collects after every hundred of them.
const GCPercent = 400

// ErrNobody is wrapped by a Prompter's error when nobody can be asked.
var ErrNobody = errors.New("there is no terminal or desktop to ask")

// A Prompter asks a person, and calls asked once the question is put to somebody. It
// returns when there is an answer, when ctx ends, or, with an error that wraps ErrNobody,
// when there is nobody to ask.
type Prompter interface {
	Prompt(ctx context.Context, p api.Prompt, asked func()) (api.Answer, error)
}

// A Memory outlives the process and remembers a few facts per host.
type Memory interface {
	// Silent reports whether the last login needed no person. Unknown is false.
	Silent(host string) bool
	SetSilent(host string, silent bool)
	// LastAddress is the address last logged in to, so that the next login lands
	// on the same one of several login nodes.
	LastAddress(host string) string
	SetLastAddress(host, addr string)
	// Accounts are those that the name was logged in to, as user@address: the config
	// can make it stand for another. None: they are not known.
	Accounts(host string) []string
	AddAccount(host, account string)
}

// nobody is the Prompter of a pool that was given none.
type nobody struct{}

func (nobody) Prompt(context.Context, api.Prompt, func()) (api.Answer, error) {
	return api.Answer{}, ErrNobody
}
