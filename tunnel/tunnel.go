// Package tunnel keeps one SSH connection per host: it dials, logs in, keeps the
// connection alive and restores it. It runs commands and dials over that connection.
//
// The packages below it know one thing each: settings (sshconfig), the host's key
// (hostkey), the user's keys (userkeys), the ssh program (openssh), what a failure was
// (failure) and what follows from it (retry), how many channels there may be (channels) and
// how fast bulk data moves (pace). Above it, tunnel/node gets onto compute nodes by a
// [Link], and tunnel/forward listens here.
//
// A [Pool] owns the hosts; a [Host] is a login node by its name. Getting a host dials
// nothing: [Host.Up] says that the user wants it now, [Host.Want] that it is wanted
// though no user may be present, [Host.Down] that it is not. One goroutine per host
// acts on that. It respects limits that keep the user from being locked out ([Limits]).
//
// Questions to the user go through a [Prompter]. What must outlive the process goes
// through a [Memory]. The package knows nothing of jobs, of the config file or of the
// agent's API; it uses the types of internal/api.
package tunnel

import (
	"context"

	"tunctl/internal/api"
)

// GCPercent is the setting of Go's collector (debug.SetGCPercent) for a process that
// forwards. x/crypto allocates 32 KB for each packet; at the usual setting, a process
// of few megabytes collects after every hundred of them.
const GCPercent = 400

// A Prompter asks the user, and calls asked once somebody sees the question. It returns
// when there is an answer, when ctx ends, or, with an error that wraps failure.ErrNobody, when
// nobody can be asked.
type Prompter interface {
	Prompt(ctx context.Context, p api.Prompt, asked func()) (api.Answer, error)
}

// A Memory remembers a few facts per host and outlives the process: an agent that crashes and
// starts again must not log in more often than one that runs on.
type Memory interface {
	Known(host string) api.Known
	Remember(host string, change func(*api.Known))
}
