package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tunctl/internal/api"
)

// agentTimeout bounds listing an agent's keys. Signing has no such limit of its
// own: a person may have to confirm it.
const agentTimeout = 5 * time.Second

var errNoAgent = errors.New("no ssh-agent is running")

// agentKeys is a connection to the person's ssh-agent.
type agentKeys struct {
	conn net.Conn
	agent.ExtendedAgent
}

// dialAgent connects to the agent that the settings name, else to the one of the
// person's newest environment. The connection ends with ctx.
func dialAgent(ctx context.Context, s *Settings, env api.Env) (*agentKeys, error) {
	socket := agentSocket(s, env)
	if socket == "none" {
		return nil, errors.New("IdentityAgent is none")
	}
	dialing, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	conn, err := dialAgentSocket(dialing, socket)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &agentKeys{conn, agent.NewClient(conn)}, nil
}

// agentSocket is where the agent listens; "" is the system's own place.
func agentSocket(s *Settings, env api.Env) string {
	fromEnv := func(name string) string {
		if v := env[name]; v != "" {
			return v
		}
		return os.Getenv(name)
	}
	switch {
	case s.IdentityAgent == "" || s.IdentityAgent == "SSH_AUTH_SOCK":
		return fromEnv("SSH_AUTH_SOCK")
	case strings.HasPrefix(s.IdentityAgent, "$"):
		return fromEnv(s.IdentityAgent[1:])
	}
	return s.IdentityAgent
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
