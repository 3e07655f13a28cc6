package hosts

import (
	"slices"
	"sync"

	"tunctl/internal/api"
)

// maxEnvs is how many environments of clients are kept. Each ssh-agent that hangs delays
// a login, so they are few.
const maxEnvs = 3

// envs are the environments of clients, which logins use: the agent may have been started
// without the user's.
type envs struct {
	mu   sync.Mutex
	list []api.Env // the newest first
}

// UseEnv keeps a client's environment as the newest.
func (h *Hosts) UseEnv(env api.Env) { h.envs.use(env) }

// use keeps an environment as the newest. It replaces one with the same ssh-agent.
func (e *envs) use(env api.Env) {
	if len(env) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	earlier := slices.DeleteFunc(slices.Clone(e.list), func(x api.Env) bool { return x["SSH_AUTH_SOCK"] == env["SSH_AUTH_SOCK"] })
	e.list = append([]api.Env{env}, earlier[:min(len(earlier), maxEnvs-1)]...)
}

// all are the environments, the newest first, or one that is nil before the first client.
func (e *envs) all() []api.Env {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == 0 {
		return []api.Env{nil}
	}
	return slices.Clone(e.list)
}

// newest is the environment of the newest client.
func (e *envs) newest() api.Env { return e.all()[0] }
