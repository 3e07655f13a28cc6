package passwords

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
	"tunctl/internal/home"
)

// MakeKey makes a private key in a file. Its passphrase is random and in the system's keyring, unless
// plain is set: then it has none. Nothing is left behind if that fails.
func (p *Passwords) MakeKey(ctx context.Context, path, comment string, plain bool) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	passphrase := ""
	if !plain {
		passphrase = rand.Text()
		if err := p.Keep(ctx, path, passphrase, api.KeepKeyring); err != nil {
			return err
		}
	}
	err = writeKey(path, private, comment, passphrase)
	if err != nil && !plain {
		err = errors.Join(err, p.forget(ctx, path))
	}
	return err
}

func writeKey(path string, private ed25519.PrivateKey, comment, passphrase string) error {
	marshal := func() (*pem.Block, error) {
		if passphrase == "" {
			return ssh.MarshalPrivateKey(private, comment)
		}
		return ssh.MarshalPrivateKeyWithPassphrase(private, comment, []byte(passphrase))
	}
	block, err := marshal()
	if err == nil {
		err = home.MakePrivate(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	return atomicfile.Create(path, pem.EncodeToMemory(block), 0o600)
}

// Key reads a key that MakeKey has made.
func (p *Passwords) Key(ctx context.Context, path string) (ssh.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); !locked {
		return key, err
	}
	passphrase, err := p.Passphrase(ctx, path)
	if err != nil {
		return nil, err
	}
	return ssh.ParsePrivateKeyWithPassphrase(text, []byte(passphrase))
}

// PublicKey is the public half of such a key. It needs no passphrase.
func PublicKey(path string) (ssh.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	if locked, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return locked.PublicKey, nil
	}
	if err != nil {
		return nil, err
	}
	return key.PublicKey(), nil
}

// Passphrase is that of a key, from the keyring.
func (p *Passwords) Passphrase(ctx context.Context, path string) (string, error) {
	if text, ok := p.Password(ctx, path); ok {
		return text, nil
	}
	return "", fmt.Errorf("the system keyring, which has the passphrase of %s, is locked or not available", path)
}

// RemoveKey removes a key and its passphrase.
func (p *Passwords) RemoveKey(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return p.forget(ctx, path)
}

func (p *Passwords) forget(ctx context.Context, account string) error {
	p.memory.Delete(account)
	if !p.store.PasswordSaved(account) {
		return nil
	}
	if _, err := p.keyring(ctx, "delete", account, ""); err != nil {
		return err
	}
	p.store.SetPasswordSaved(account, false)
	return nil
}
