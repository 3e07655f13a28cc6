package hostkey

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/dev/sshtest"
	"tunctl/internal/dev/testprogram"
	"tunctl/tunnel/sshconfig"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRevokedHostKeysAreRefused(t *testing.T) {
	testprogram.Need(t, "ssh-keygen")
	ca, key, unrelated := sshtest.NewSigner(t), sshtest.NewSigner(t), sshtest.NewSigner(t).PublicKey()
	cert := sshtest.Certify(t, ca, key.PublicKey(), func(c *ssh.Certificate) { c.Serial, c.KeyId = 70, "login node" })
	fingerprint := func(k ssh.PublicKey) string { return "hash: " + ssh.FingerprintSHA256(k) + "\n" }
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(&ecdsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		list    string // of keys, unless it is for ssh-keygen
		spec    string
		revoked []ssh.PublicKey // of key, cert and ca
	}{
		"an empty list":        {},
		"a list with the key":  {list: "# old keys\n\n" + sshtest.Authorized(unrelated) + " x\n" + sshtest.Authorized(key.PublicKey()) + " stolen\n", revoked: []ssh.PublicKey{key.PublicKey(), cert}},
		"a list with the cert": {list: sshtest.Authorized(cert) + "\n", revoked: []ssh.PublicKey{key.PublicKey(), cert}},
		"a list with the CA":   {list: sshtest.Authorized(ca.PublicKey()) + "\n", revoked: []ssh.PublicKey{ca.PublicKey(), cert}},
		"a list of others":     {list: sshtest.Authorized(unrelated) + "\n" + sshtest.Authorized(public) + "\nssh-new " + "AAAAB3NzaC1uZXcAAAABAQ==\n"},

		"a KRL with the key":       {spec: sshtest.Authorized(key.PublicKey()) + "\n", revoked: []ssh.PublicKey{key.PublicKey(), cert}},
		"a KRL with its hash":      {spec: fingerprint(key.PublicKey()), revoked: []ssh.PublicKey{key.PublicKey(), cert}},
		"a KRL with its SHA-1":     {spec: "sha1: " + sshtest.Authorized(key.PublicKey()) + "\n", revoked: []ssh.PublicKey{key.PublicKey(), cert}},
		"a KRL with its SHA-256":   {spec: "sha256: " + sshtest.Authorized(key.PublicKey()) + "\n", revoked: []ssh.PublicKey{key.PublicKey(), cert}},
		"a KRL with the CA":        {spec: sshtest.Authorized(ca.PublicKey()) + "\n", revoked: []ssh.PublicKey{ca.PublicKey(), cert}},
		"a KRL with the serial":    {spec: "serial: 70\n", revoked: []ssh.PublicKey{cert}},
		"a KRL with some serials":  {spec: "serial: 3\nserial: 70\nserial: 900000\n", revoked: []ssh.PublicKey{cert}},
		"a KRL with a range":       {spec: "serial: 60-80000\n", revoked: []ssh.PublicKey{cert}},
		"a KRL with many serials":  {spec: serials(1, 99), revoked: []ssh.PublicKey{cert}},
		"a KRL with odd serials":   {spec: serials(2, 99)},
		"a KRL with other serials": {spec: "serial: 71-90\nserial: 69\n"},
		"a KRL with the key's id":  {spec: "id: login node\n", revoked: []ssh.PublicKey{cert}},
		"a KRL with another id":    {spec: "id: login\n"},
		"a KRL of others":          {spec: sshtest.Authorized(unrelated) + "\n" + sshtest.Authorized(public) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "revoked")
			write(t, path, test.list)
			if test.spec != "" {
				sshtest.MakeKRL(t, path, test.spec, ca.PublicKey())
			}
			for what, k := range map[string]ssh.PublicKey{"key": key.PublicKey(), "certificate": cert, "authority": ca.PublicKey()} {
				want := slices.ContainsFunc(test.revoked, func(r ssh.PublicKey) bool { return sshconfig.SameKey(r, k) })
				if got, err := isRevoked(t.Context(), path, k); err != nil || got != want {
					t.Errorf("the %s is revoked: %v, want %v, %v", what, got, want, err)
				}
			}
		})
	}
}

// serials are lines for many serial numbers, which ssh-keygen writes as a bitmap.
func serials(step, last int) string {
	var b strings.Builder
	for n := 1; n <= last; n += step {
		fmt.Fprintf(&b, "serial: %d\n", n)
	}
	return b.String()
}

func TestKRLWithoutKeygen(t *testing.T) {
	testprogram.Need(t, "ssh-keygen")
	ca, key := sshtest.NewSigner(t), sshtest.NewSigner(t).PublicKey()
	path := filepath.Join(t.TempDir(), "revoked")
	sshtest.MakeKRL(t, path, "serial: 1\n", ca.PublicKey())
	if revoked, err := isRevoked(t.Context(), path, key); revoked || err != nil {
		t.Fatalf("%v, %v", revoked, err)
	}
	t.Run("that is installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := isRevoked(t.Context(), path, key); err == nil || !strings.Contains(err.Error(), "install OpenSSH's client") {
			t.Errorf("%v", err)
		}
	})
	t.Run("that can read it", func(t *testing.T) {
		write(t, path, krlMagic+"\x00\x00\x00\x01")
		if _, err := isRevoked(t.Context(), path, key); err == nil || !strings.HasPrefix(err.Error(), "ssh-keygen: ") {
			t.Errorf("%v", err)
		}
	})
}
