package userkeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// agentTimeout bounds listing an agent's keys. Signing has no limit: the user may have
// to confirm it.
const agentTimeout = 5 * time.Second

var errNoAgent = errors.New("no ssh-agent is running")

// agentKeys is a connection to the user's ssh-agent.
type agentKeys struct {
	conn net.Conn
	agent.ExtendedAgent
}

// dialAgent connects to the agent that the settings name, or to that of the newest
// environment whose agent responds. The connection ends with ctx.
func dialAgent(ctx context.Context, s *sshconfig.Settings, envs []api.Env) (*agentKeys, error) {
	sockets := agentSockets(s, envs)
	if slices.Equal(sockets, []string{"none"}) {
		return nil, errors.New("IdentityAgent is none")
	}
	var first error
	for _, socket := range sockets {
		a, err := dialAgentAt(ctx, socket)
		if err == nil {
			return a, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// dialAgentAt connects to one agent and checks that it responds. A socket can outlive
// its agent, and a forwarded one can accept and then send nothing.
func dialAgentAt(ctx context.Context, socket string) (*agentKeys, error) {
	dialing, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	conn, err := dialAgentSocket(dialing, socket)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	a := &agentKeys{conn, agent.NewClient(conn)}
	if _, err := a.Signers(); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// agentSockets are where the agent may listen, the likeliest first; "" is the system's
// default.
func agentSockets(s *sshconfig.Settings, envs []api.Env) []string {
	name, isVariable := strings.CutPrefix(s.IdentityAgent, "$")
	switch {
	case s.IdentityAgent == "" || s.IdentityAgent == "SSH_AUTH_SOCK":
		name = "SSH_AUTH_SOCK"
	case !isVariable:
		return []string{s.IdentityAgent}
	}
	var sockets []string
	for _, env := range append(slices.Clip(envs), api.Env{name: os.Getenv(name)}) {
		if socket := env[name]; socket != "" && !slices.Contains(sockets, socket) {
			sockets = append(sockets, socket)
		}
	}
	return append(sockets, "")
}

// WithAgent is the newest of some environments, for a program that we run, with an
// ssh-agent that responds if there is one.
func WithAgent(ctx context.Context, envs []api.Env) api.Env {
	const name = "SSH_AUTH_SOCK"
	for _, socket := range agentSockets(&sshconfig.Settings{}, envs) {
		if a, err := dialAgentAt(ctx, socket); err == nil {
			a.close()
			with := api.Env{}
			maps.Copy(with, envs[0])
			if socket != "" {
				with[name] = socket
			}
			return with
		}
	}
	return envs[0]
}

// Signers lists the agent's keys.
func (a *agentKeys) Signers() ([]ssh.Signer, error) {
	_ = a.conn.SetDeadline(time.Now().Add(agentTimeout))
	defer func() { _ = a.conn.SetDeadline(time.Time{}) }()
	list, err := a.ExtendedAgent.Signers()
	if err != nil {
		return nil, fmt.Errorf("ssh-agent: %w", err)
	}
	return list, nil
}

func (a *agentKeys) close() { _ = a.conn.Close() }
