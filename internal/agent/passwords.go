package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// KeyringCommand is the hidden command of the program that works on the system's
// keyring: get, set or delete, and an account. Passwords go by its standard input
// and output.
const KeyringCommand = "keyring"

// keyringTimeout bounds a wait for the keyring: a locked one may ask the person, who
// may not be there.
const keyringTimeout = 15 * time.Second

// passwords keeps passwords in memory, and in the system's keyring. A keyring that is
// locked can block without limit, and is found by the person's environment rather
// than ours; so a process of its own deals with it.
type passwords struct {
	store *state.Store
	env   func() api.Env

	mu     sync.Mutex
	memory map[string]api.Secret
}

func newPasswords(s *state.Store, env func() api.Env) *passwords {
	return &passwords{store: s, env: env, memory: map[string]api.Secret{}}
}

// Password implements tunnel.Passwords. The keyring is asked only for what was put
// there, so that nobody has to unlock it for nothing.
func (p *passwords) Password(ctx context.Context, account string) (string, bool) {
	p.mu.Lock()
	secret, ok := p.memory[account]
	p.mu.Unlock()
	if ok {
		return secret.Reveal(), true
	}
	if !p.store.PasswordSaved(account) {
		return "", false
	}
	text, err := p.keyring(ctx, "get", account, "")
	if err != nil || text == "" {
		return "", false
	}
	p.remember(account, text)
	return text, true
}

// Keep implements tunnel.Passwords.
func (p *passwords) Keep(ctx context.Context, account, password string, where api.Keep) error {
	if where == api.KeepKeyring {
		if _, err := p.keyring(ctx, "set", account, password); err != nil {
			return err
		}
		p.store.SetPasswordSaved(account, true)
	}
	p.remember(account, password)
	return nil
}

// Forget implements tunnel.Passwords.
func (p *passwords) Forget(ctx context.Context, account string) {
	p.mu.Lock()
	delete(p.memory, account)
	p.mu.Unlock()
	if p.store.PasswordSaved(account) {
		p.store.SetPasswordSaved(account, false)
		_, _ = p.keyring(ctx, "delete", account, "") // what stays there is not asked for again
	}
}

func (p *passwords) remember(account, password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory[account] = api.NewSecret(password)
}

// keyring runs our own program on the keyring, in the person's environment.
func (p *passwords) keyring(ctx context.Context, verb, account, input string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTimeout)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, KeyringCommand, verb, account)
	cmd.Env = os.Environ()
	for name, value := range p.env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.WaitDelay = time.Second
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaint
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the keyring did not respond within %s: it may be locked", api.DurationText(keyringTimeout))
	case err != nil && complaint.Len() > 0:
		return "", errors.New(strings.TrimPrefix(strings.TrimSpace(complaint.String()), "tunctl: error: "))
	}
	return out.String(), err
}
