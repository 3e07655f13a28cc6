package gateway

import (
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// Alias is the name under which the gateway's host key is known; ssh is told it by
// HostKeyAlias.
const Alias = "tunctl-gateway"

// KnownHosts is the known_hosts file, in the gateway's folder, with its host key.
func KnownHosts(dir string) string { return filepath.Join(dir, "known_hosts") }

// HostKey is the gateway's own host key, kept in a folder that only its owner can
// enter. The first call makes it, and the known_hosts file beside it.
func HostKey(dir string) (ssh.Signer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "host_key")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(dir, path); err == nil {
			data, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("%q is no key: %w", path, err)
	}
	line := fmt.Sprintf("%s %s", Alias, ssh.MarshalAuthorizedKey(key.PublicKey()))
	if known, err := os.ReadFile(KnownHosts(dir)); err == nil && string(known) == line {
		return key, nil
	}
	return key, replace(KnownHosts(dir), []byte(line))
}

// makeKey makes a key unless another process is quicker.
func makeKey(dir, path string) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, Alias)
	if err != nil {
		return err
	}
	tmp, err := write(dir, pem.EncodeToMemory(block))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp) }()
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// replace puts a file in place whole, or not at all.
func replace(path string, data []byte) error {
	tmp, err := write(filepath.Dir(path), data)
	if err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// write makes a new private file with data in it and returns its name.
func write(dir string, data []byte) (string, error) {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}
