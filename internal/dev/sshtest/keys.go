package sshtest

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// NewSigner returns a new key.
func NewSigner(t testing.TB) ssh.Signer {
	t.Helper()
	return signer(t, newKey(t))
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signer(t testing.TB, key crypto.Signer) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rsaKey is made once a process, since that takes long.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// RSASigner returns an RSA key of 2048 bits, the same in all of a process.
func RSASigner(t testing.TB) ssh.AlgorithmSigner {
	t.Helper()
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer(t, key).(ssh.AlgorithmSigner)
}

// NewKeyFile writes a new private key.
func NewKeyFile(t testing.TB) (path string, public ssh.PublicKey) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "id")
	return path, WriteKey(t, path)
}

// WriteKey writes a new private key to path.
func WriteKey(t testing.TB, path string) ssh.PublicKey {
	t.Helper()
	return writeKey(t, path, newKey(t))
}

// RSAKeyFile writes the key of [RSASigner].
func RSAKeyFile(t testing.TB) (path string, public ssh.PublicKey) {
	t.Helper()
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "id")
	return path, writeKey(t, path, key)
}

func writeKey(t testing.TB, path string, key crypto.Signer) ssh.PublicKey {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(block)))
	return signer(t, key).PublicKey()
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Authorized is a key as authorized_keys and known_hosts have it, without the line's end.
func Authorized(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// Certify has ca sign a key of the hosts "login" and 127.0.0.1, or of whom set names.
func Certify(t testing.TB, ca ssh.Signer, key ssh.PublicKey, set func(*ssh.Certificate)) *ssh.Certificate {
	t.Helper()
	cert := &ssh.Certificate{Key: key, CertType: ssh.HostCert, ValidPrincipals: []string{"login", "127.0.0.1"}, ValidBefore: ssh.CertTimeInfinity}
	if set != nil {
		set(cert)
	}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	return cert
}

// WriteCertificate writes a certificate of the user "alice" for a key.
func WriteCertificate(t testing.TB, path string, ca ssh.Signer, key ssh.PublicKey, valid time.Duration) {
	t.Helper()
	write(t, path, Authorized(Certify(t, ca, key, func(c *ssh.Certificate) {
		c.CertType, c.ValidPrincipals = ssh.UserCert, []string{"alice"}
		c.ValidAfter, c.ValidBefore = uint64(time.Now().Add(-time.Minute).Unix()), uint64(time.Now().Add(valid).Unix())
	})))
}

// MakeKRL has ssh-keygen make a list of revoked keys by a specification.
func MakeKRL(t testing.TB, path, spec string, ca ssh.PublicKey) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "spec"), spec)
	write(t, filepath.Join(dir, "ca.pub"), Authorized(ca)+"\n")
	args := []string{"-k", "-f", path, "-s", filepath.Join(dir, "ca.pub"), "-z", "7", filepath.Join(dir, "spec")}
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", args...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %s", out)
	}
}
