package hosts

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
	"tunctl/internal/home"
	"tunctl/internal/posixsh"
	"tunctl/tunnel"
)

// keyScript changes ~/.ssh/authorized_keys.
//
//go:embed authorizedkeys.sh
var keyScript string

// undoTimeout bounds taking out a key that does not work, also for a client that has left.
const undoTimeout = 30 * time.Second

// OfferKey reports whether to offer the user a key for a host that is connected: once, and if there is none.
func (h *Hosts) OfferKey(ctx context.Context, host string) (api.KeyOffer, error) {
	if err := h.Connected(ctx, host); err != nil {
		return api.KeyOffer{}, err
	}
	path, err := h.keyPath(ctx, host)
	if err != nil {
		return api.KeyOffer{}, err
	}
	_, err = os.Stat(path)
	offer := errors.Is(err, fs.ErrNotExist) && !h.opt.Store.Known(host).KeyOffered && h.Pool.Host(host).Status().Transport != api.TransportOpenSSH
	h.opt.Store.Remember(host, func(k *api.Known) { k.KeyOffered = true })
	return api.KeyOffer{Offer: offer}, nil
}

// keyPath is the file of the key for the account that a host's name leads to.
func (h *Hosts) keyPath(ctx context.Context, host string) (string, error) {
	account, err := h.Pool.Settings(ctx, host)
	return h.opt.Settings.Key(&account), err
}

// InstallKey makes a key for a host, unless there is one, and has the host accept it; plain is one
// without a passphrase. If the host does not accept it, nothing has changed. Where keys belong to a
// site's portal, the user takes it there.
func (h *Hosts) InstallKey(ctx context.Context, host string, plain bool) (api.Key, error) {
	if err := h.Connected(ctx, host); err != nil {
		return api.Key{}, err
	}
	to := h.Pool.Host(host)
	if to.Status().Transport == api.TransportOpenSSH {
		return api.Key{}, api.Errorf(api.CodeUsage, "the ssh program logs in to %s, which does not use keys of tunctl's", host).
			WithHint(`ssh-keygen and ssh-copy-id make and install a key for it`)
	}
	path, err := h.keyPath(ctx, host)
	if err != nil {
		return api.Key{}, err
	}
	h.keys.Lock()
	defer h.keys.Unlock()
	_, err = os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew {
		if err := h.makeKey(ctx, path, plain); err != nil {
			return api.Key{}, api.Errorf(api.CodeFailed, "could not make a key for %s: %w", host, err)
		}
	}
	key, err := h.installKey(ctx, to, path)
	if err == nil || !isNew {
		return key, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	return api.Key{}, withCause(err, h.deleteKey(ctx, path))
}

func (h *Hosts) installKey(ctx context.Context, to *tunnel.Host, path string) (api.Key, error) {
	signer, err := h.readKey(ctx, path)
	if err != nil {
		return api.Key{}, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	key := api.Key{File: path, Line: line + " " + keyComment()}
	host := to.Status().Alias
	if site, ok := h.opt.Settings.Site(host); ok && site.Keys != "" {
		key.Portal = site.Keys
		return key, nil
	}
	if err := h.changeKeys(ctx, to, "install", key.Line); err != nil {
		return key, err
	}
	if key.Besides, err = to.TryKey(ctx, signer); err == nil {
		return key, nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	refused := api.Errorf(api.CodeFailed, "%s does not accept the new key: %w", host, err)
	if why := h.changeKeys(undo, to, "explain", key.Line); why != nil {
		refused = refused.WithHint("%v", why)
	}
	return key, withCause(refused, h.changeKeys(undo, to, "remove", key.Line))
}

// withCause adds to an error why its effects remain.
func withCause(err, left error) error {
	if left == nil {
		return err
	}
	return api.Errorf(api.CodeFailed, "%w; it could not be removed: %w", err, left)
}

// RemoveKey removes the key for a host at both ends. One that a portal has is removed here.
func (h *Hosts) RemoveKey(ctx context.Context, host string) (api.Key, error) {
	path, err := h.keyPath(ctx, host)
	if err != nil {
		return api.Key{}, err
	}
	h.keys.Lock()
	defer h.keys.Unlock()
	public, err := publicKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return api.Key{}, api.Errorf(api.CodeUsage, "tunctl has made no key for %s", host)
	}
	if err != nil {
		return api.Key{}, api.Errorf(api.CodeFailed, "could not read tunctl's key for %s: %w", host, err)
	}
	key := api.Key{File: path, Line: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))}
	if site, ok := h.opt.Settings.Site(host); ok && site.Keys != "" {
		key.Portal = site.Keys
	} else if err := h.Connected(ctx, host); err != nil {
		return key, err
	} else if err := h.changeKeys(ctx, h.Pool.Host(host), "remove", key.Line); err != nil {
		return key, err
	}
	return key, h.deleteKey(ctx, path)
}

// makeKey makes a private key in a file. Its passphrase is random and in the system's keyring, unless
// plain is set: then it has none. Nothing is left behind if that fails.
func (h *Hosts) makeKey(ctx context.Context, path string, plain bool) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	if plain {
		block, err := ssh.MarshalPrivateKey(private, keyComment())
		return writeKey(path, block, err)
	}
	passphrase := rand.Text()
	if err := h.passwords.Keep(ctx, path, passphrase, api.KeepKeyring); err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, keyComment(), []byte(passphrase))
	if err = writeKey(path, block, err); err != nil {
		err = errors.Join(err, h.passwords.Forget(ctx, path))
	}
	return err
}

// writeKey writes a new key to a file, unless it could not be made.
func writeKey(path string, key *pem.Block, err error) error {
	if err == nil {
		err = home.MakePrivate(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	return atomicfile.Create(path, pem.EncodeToMemory(key), 0o600)
}

// readKey reads a key that makeKey has made.
func (h *Hosts) readKey(ctx context.Context, path string) (ssh.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); !locked {
		return key, err
	}
	passphrase, err := h.passwords.Passphrase(ctx, path)
	if err != nil {
		return nil, err
	}
	return ssh.ParsePrivateKeyWithPassphrase(text, []byte(passphrase))
}

// publicKey is the public half of such a key. It needs no passphrase.
func publicKey(path string) (ssh.PublicKey, error) {
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

// deleteKey deletes a key here, with its passphrase.
func (h *Hosts) deleteKey(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return h.passwords.Forget(ctx, path)
}

// changeKeys installs or removes a line of ~/.ssh/authorized_keys, or explains why the host may not
// accept it.
func (h *Hosts) changeKeys(ctx context.Context, to *tunnel.Host, verb, line string) error {
	ctx, cancel := context.WithTimeout(ctx, h.opt.Jobs.Command)
	defer cancel()
	script := fmt.Sprintf("set -- %s %s %s\n%s", verb, posixsh.Quote(line), posixsh.Quote(strings.Fields(line)[1]), keyScript)
	result, err := to.Run(ctx, posixsh.Script, []byte(script))
	if err != nil {
		return err
	}
	if text := strings.TrimSpace(api.NewRemoteText(string(result.Stderr)).String()); result.Exit != 0 {
		return fmt.Errorf("~/.ssh/authorized_keys of %s: %s", to.Status().Alias, text)
	}
	if text := strings.TrimSpace(api.NewRemoteText(string(result.Stdout)).String()); text != "" {
		return errors.New(text)
	}
	return nil
}

// keyComment names this computer in the line of a key.
func keyComment() string {
	name, _ := os.Hostname()
	return "tunctl@" + strings.Map(func(r rune) rune {
		if r < '-' || r > 'z' {
			return -1
		}
		return r
	}, name)
}
