// Package passwords keeps the passwords of accounts and the passphrases of keys, in memory and in the
// system keyring. It asks nobody for one.
package passwords

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
	"tunctl/internal/nowindow"
)

// KeyringCommand is the hidden command that uses the system keyring: get, set or delete,
// and an account. Passwords pass through its standard input and output.
const KeyringCommand = "keyring"

// keyringTimeout bounds the wait for the keyring: a locked one asks the user, who may be
// away.
const keyringTimeout = 15 * time.Second

// Passwords keeps passwords in memory and in the system keyring. A locked keyring can
// block forever, and is found by the user's environment, not the agent's; so a separate
// process uses it.
type Passwords struct {
	store  *state.Store
	env    func() api.Env
	memory sync.Map // an api.Secret by account
}

// New returns the passwords that the store knows of. The keyring is used in the environment env.
func New(store *state.Store, env func() api.Env) *Passwords {
	return &Passwords{store: store, env: env}
}

// Password implements userkeys.Passwords. It reads the keyring only for accounts that have
// a password there, so that nobody unlocks it for nothing.
func (p *Passwords) Password(ctx context.Context, account string) (string, bool) {
	if p.store.Lists(state.RefusedPasswords, account) {
		return "", false
	}
	if secret, ok := p.memory.Load(account); ok {
		return secret.(api.Secret).Reveal(), true
	}
	if !p.store.Lists(state.SavedPasswords, account) {
		return "", false
	}
	text, err := p.keyring(ctx, "get", account, "")
	if err != nil || text == "" {
		return "", false
	}
	p.memory.Store(account, api.NewSecret(text))
	return text, true
}

// Keep implements userkeys.Passwords.
func (p *Passwords) Keep(ctx context.Context, account, password string, where api.Keep) error {
	if where == api.KeepKeyring {
		if _, err := p.keyring(ctx, "set", account, password); err != nil {
			return err
		}
		p.store.List(state.SavedPasswords, account, true)
	}
	p.memory.Store(account, api.NewSecret(password))
	p.store.List(state.RefusedPasswords, account, false)
	return nil
}

// Passphrase is that of a key, by its file.
func (p *Passwords) Passphrase(ctx context.Context, path string) (string, error) {
	if text, ok := p.Password(ctx, path); ok {
		return text, nil
	}
	return "", fmt.Errorf("the system keyring, which has the passphrase of %s, is locked or not available", path)
}

// Forget removes the password of an account, or the passphrase of a key, for good.
func (p *Passwords) Forget(ctx context.Context, account string) error {
	p.memory.Delete(account)
	if !p.store.Lists(state.SavedPasswords, account) {
		return nil
	}
	if _, err := p.keyring(ctx, "delete", account, ""); err != nil {
		return err
	}
	p.store.List(state.SavedPasswords, account, false)
	return nil
}

// SetRefused implements userkeys.Passwords.
func (p *Passwords) SetRefused(account string) { p.store.List(state.RefusedPasswords, account, true) }

// Refused implements userkeys.Passwords.
func (p *Passwords) Refused(account string) api.Keep {
	_, remembered := p.memory.Load(account)
	switch {
	case !p.store.Lists(state.RefusedPasswords, account):
	case p.store.Lists(state.SavedPasswords, account):
		return api.KeepKeyring
	case remembered:
		return api.KeepMemory
	}
	return api.KeepNot
}

// keyring runs this program's keyring command in the user's environment.
func (p *Passwords) keyring(ctx context.Context, verb, account, input string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTimeout)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, KeyringCommand, verb, account)
	nowindow.Set(cmd)
	cmd.Env = p.env().Environ()
	cmd.WaitDelay = time.Second
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errOut
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the keyring did not respond within %s: it may be locked", api.DurationText(keyringTimeout))
	case err != nil && errOut.Len() > 0:
		return "", errors.New(strings.TrimPrefix(strings.TrimSpace(errOut.String()), "tunctl: error: "))
	}
	return out.String(), err
}
