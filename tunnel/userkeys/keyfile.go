package userkeys

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// maxPassphrases is how often the user may mistype a passphrase.
const maxPassphrases = 3

// maxKeyFile bounds the size of a key file.
const maxKeyFile = 256 << 10

// fileKey is a private key in a file. If encrypted, it offers its public key, and asks
// for the passphrase only when the server accepts that.
type fileKey struct {
	path   string
	own    bool // tunctl has made it
	public ssh.PublicKey
	signer ssh.AlgorithmSigner // nil while encrypted, or if only the public key exists
	pem    []byte              // while encrypted
	stamp  time.Time
	ring   *Keyring
	ask    func(api.Prompt) (string, error)
}

// loadKey reads a key file. It may be a public key whose private key the agent has.
func loadKey(path string, ring *Keyring, ask func(api.Prompt) (string, error)) (*fileKey, error) {
	text, info, err := readKeyFile(path)
	if err != nil {
		return nil, publicOnly(path, err)
	}
	k := &fileKey{path: path, stamp: info.ModTime(), ring: ring, ask: ask}
	if public, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
		k.public = public
		return k, nil
	}
	if err := checkPrivate(path, info); err != nil {
		return nil, err
	}
	return k, k.parse(text)
}

// readKeyFile reads a file that may be a key.
func readKeyFile(path string) ([]byte, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxKeyFile || !info.Mode().IsRegular() {
		return nil, nil, errors.New("the file is not a key")
	}
	text, err := os.ReadFile(path)
	return text, info, err
}

// publicOnly explains a missing private key if its public key exists.
func publicOnly(path string, err error) error {
	if _, pubErr := os.Stat(path + ".pub"); pubErr == nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is only a public key: %w", err)
	}
	return err
}

func (k *fileKey) parse(text []byte) error {
	if strings.HasPrefix(string(text), "PuTTY-User-Key-File-") {
		base := strings.TrimSuffix(k.path, filepath.Ext(k.path))
		return fmt.Errorf("PuTTY keys must be converted: puttygen %q -O private-openssh -o %q", k.path, base)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if locked, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		k.pem, k.public = text, locked.PublicKey
		if k.public == nil {
			k.public = publicHalf(k.path)
		}
		if k.public == nil {
			// The old format encrypts the public key too.
			return k.unlock()
		}
		return nil
	}
	if err != nil {
		if strings.Contains(err.Error(), "unhandled key type") {
			return errors.New("keys on a security token are used through an ssh-agent: ssh-add it, or set transport = \"openssh\"")
		}
		return err
	}
	k.setSigner(signer)
	return nil
}

// setSigner takes in the key, which, as all of the library's, can sign with an algorithm.
func (k *fileKey) setSigner(signer ssh.Signer) {
	k.signer, k.public, k.pem = signer.(ssh.AlgorithmSigner), signer.PublicKey(), nil
}

// private reports whether the file can sign, maybe after a passphrase.
func (k *fileKey) private() bool { return k.signer != nil || k.pem != nil }

// unlock decrypts the key. It asks for the passphrase only once per Keyring.
func (k *fileKey) unlock() error {
	if k.signer != nil {
		return nil
	}
	if s := k.ring.get(k.path, k.stamp); s != nil {
		k.setSigner(s)
		return nil
	}
	question := api.Prompt{Kind: api.PromptPassphrase, Text: fmt.Sprintf("Enter passphrase for key '%s': ", k.path)}
	for left := maxPassphrases; left > 0; left-- {
		if left < maxPassphrases {
			question.Retry = api.RetryText("that was not right", left)
		}
		passphrase, err := k.ask(question)
		if err != nil {
			return err
		}
		signer, err := ssh.ParsePrivateKeyWithPassphrase(k.pem, []byte(passphrase))
		if err == nil {
			k.ring.Put(k.path, k.stamp, signer)
			k.setSigner(signer)
			return nil
		}
	}
	return errors.New("the passphrase was wrong")
}

// PublicKey implements ssh.Signer.
func (k *fileKey) PublicKey() ssh.PublicKey { return k.public }

// Sign implements ssh.Signer.
func (k *fileKey) Sign(r io.Reader, data []byte) (*ssh.Signature, error) {
	return k.SignWithAlgorithm(r, data, "")
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (k *fileKey) SignWithAlgorithm(r io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if err := k.unlock(); err != nil {
		return nil, err
	}
	return k.signer.SignWithAlgorithm(r, data, algorithm)
}

// publicHalf reads the .pub file beside a key.
func publicHalf(path string) ssh.PublicKey {
	text, _ := os.ReadFile(path + ".pub")
	key, _, _, _, _ := ssh.ParseAuthorizedKey(text) // nil without one
	return key
}

// Keyring keeps decrypted keys in memory, so that a passphrase is asked for once. A
// changed file needs it again.
type Keyring struct {
	keys sync.Map // by path: ringKey
}

type ringKey struct {
	stamp  time.Time
	signer ssh.Signer
}

func (r *Keyring) get(path string, stamp time.Time) ssh.Signer {
	if k, ok := r.keys.Load(path); ok && k.(ringKey).stamp.Equal(stamp) {
		return k.(ringKey).signer
	}
	return nil
}

// Put keeps a decrypted key of a file that was last changed at a time.
func (r *Keyring) Put(path string, stamp time.Time, signer ssh.Signer) {
	r.keys.Store(path, ringKey{stamp, signer})
}

// OnToken is a key file whose key is on a FIDO token and in no ssh-agent; "": there is
// none. A default key file does not count if another key exists.
func OnToken(ctx context.Context, o Options) string {
	s := o.Settings
	if !s.PubkeyAuthentication {
		return ""
	}
	var path string
	others := 0
	k := New(ctx, o)
	defer k.Close()
	for _, file := range s.IdentityFiles {
		text, _, err := readKeyFile(file)
		if err != nil {
			continue
		}
		public := tokenKey(text)
		held := public != nil && signerOf(k.agentKeys(), public) != nil
		switch {
		case public == nil || held:
			others++
		case path == "":
			path = file
		}
	}
	if !s.OwnIdentities && path != "" && (others > 0 || !s.IdentitiesOnly && len(k.agentKeys()) > 0) {
		return ""
	}
	return path
}

// tokenKey is the public key of a private key on a FIDO token; nil for other keys.
// OpenSSH's format has it unencrypted (PROTOCOL.key).
func tokenKey(text []byte) ssh.PublicKey {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	rest, ok := strings.CutPrefix(string(block.Bytes), "openssh-key-v1\x00")
	if !ok {
		return nil
	}
	var key struct {
		Cipher, KDF, Options string
		Count                uint32
		Public               []byte
		Rest                 []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal([]byte(rest), &key); err != nil {
		return nil
	}
	public, err := ssh.ParsePublicKey(key.Public)
	if err != nil || !strings.HasPrefix(public.Type(), "sk-") {
		return nil
	}
	return public
}
