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

	"tunctl/internal/atomicfile"
)

// Alias is the name of the gateway's host key in known_hosts, for HostKeyAlias.
const Alias = "tunctl-gateway"

// KnownHosts is the known_hosts file, in the gateway's folder, with its host key.
func KnownHosts(dir string) string { return filepath.Join(dir, "known_hosts") }

// HostKey is the gateway's own host key, in a folder that only its owner can enter. The
// first call creates it, and the known_hosts file next to it.
func HostKey(dir string) (ssh.Signer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "host_key")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			data, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("%q is not a valid key: %w", path, err)
	}
	line := fmt.Sprintf("%s %s", Alias, ssh.MarshalAuthorizedKey(key.PublicKey()))
	if known, err := os.ReadFile(KnownHosts(dir)); err == nil && string(known) == line {
		return key, nil
	}
	return key, atomicfile.Write(KnownHosts(dir), []byte(line), 0o600)
}

// makeKey creates a key, unless another process was faster.
func makeKey(path string) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, Alias)
	if err != nil {
		return err
	}
	err = atomicfile.Create(path, pem.EncodeToMemory(block), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
