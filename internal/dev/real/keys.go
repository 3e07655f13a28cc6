package real

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"
)

// What the user of the lab knows by heart.
const (
	Password   = "hpc-pass-1" // of every user
	Passphrase = "key-pass-1" // of the key id_pass

	// passwordHash is Password as in /etc/shadow.
	passwordHash = "$6$lablablab$BHCle0zLOOsotgdyAWti8eFlHSevU/AL6L18CpG.ETlIF/UlQOOMeW5fHepSOBynUD9NdEMGaNvaeNQIIE4vh."
)

// hostKeyTypes are the host keys of each node with an sshd. Only login1 has
// several, as real login nodes do; making RSA keys takes time.
func hostKeyTypes(node string) []string {
	if node == "login1" {
		return []string{"ed25519", "ecdsa", "rsa"}
	}
	return []string{"ed25519"}
}

var sshNodes = []string{"login1", "jump", "cn01", "cn02"}

// keyring is the folder with the lab's keys.
type keyring struct{ dir string }

func (k keyring) path(name string) string { return filepath.Join(k.dir, name) }

func hostKeyName(node, kind string) string { return "host_" + node + "_" + kind }

// make makes every key and certificate.
func (k keyring) make(p plan) error {
	if err := os.Mkdir(k.dir, 0o755); err != nil {
		return err
	}
	secret := make([]byte, 128)
	_, _ = rand.Read(secret)
	if err := os.WriteFile(k.path("munge.key"), secret, 0o600); err != nil {
		return err
	}
	for _, name := range []string{"user_ca", "host_ca", "id_hpcuser", "id_cert", "id_expired", "id_stranger", "id_inside", "id_pass"} {
		if err := k.write(name, "ed25519"); err != nil {
			return err
		}
	}
	// One round of the key derivation: with the usual ones, opening the key takes a
	// test under the race detector seconds.
	if _, err := run("", "ssh-keygen", "-q", "-p", "-a", "1", "-P", "", "-N", Passphrase, "-f", k.path("id_pass")); err != nil {
		return err
	}
	for _, node := range sshNodes {
		for _, kind := range hostKeyTypes(node) {
			if err := k.write(hostKeyName(node, kind), kind); err != nil {
				return err
			}
		}
	}
	return k.certify(p)
}

func (k keyring) certify(p plan) error {
	now := time.Now()
	user := ssh.Certificate{CertType: ssh.UserCert, ValidPrincipals: []string{"hpcuser"}}
	user.Extensions = map[string]string{"permit-pty": "", "permit-port-forwarding": ""}

	valid, expired, host := user, user, ssh.Certificate{CertType: ssh.HostCert}
	valid.ValidAfter, valid.ValidBefore = epoch(now.Add(-5*time.Minute)), epoch(now.AddDate(1, 0, 0))
	expired.ValidAfter, expired.ValidBefore = epoch(now.AddDate(0, 0, -2)), epoch(now.AddDate(0, 0, -1))
	host.ValidAfter, host.ValidBefore = valid.ValidAfter, valid.ValidBefore
	login, err := p.On("login1", "wan")
	if err != nil {
		return err
	}
	host.ValidPrincipals = []string{"login1", login.String()}

	return cmp.Or(
		k.sign("id_cert", "user_ca", valid),
		k.sign("id_expired", "user_ca", expired),
		k.sign(hostKeyName("login1", "ed25519"), "host_ca", host),
	)
}

func epoch(t time.Time) uint64 { return uint64(t.Unix()) }

// write makes a key pair under name, as ssh-keygen would.
func (k keyring) write(name, kind string) error {
	private, public, err := newKey(kind, "lab-"+name)
	if err != nil {
		return fmt.Errorf("make key %q: %w", name, err)
	}
	return cmp.Or(
		os.WriteFile(k.path(name), private, 0o600),
		os.WriteFile(k.path(name+".pub"), public, 0o644),
	)
}

// sign writes name-cert.pub: the certificate of a key, signed by an authority.
func (k keyring) sign(name, authority string, cert ssh.Certificate) error {
	text, err := os.ReadFile(k.path(authority))
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return err
	}
	cert.Key, err = k.public(name)
	if err != nil {
		return err
	}
	cert.KeyId = name + "@lab"
	if err := cert.SignCert(rand.Reader, signer); err != nil {
		return fmt.Errorf("sign %q: %w", name, err)
	}
	return os.WriteFile(k.path(name+"-cert.pub"), ssh.MarshalAuthorizedKey(&cert), 0o644)
}

func (k keyring) public(name string) (ssh.PublicKey, error) {
	text, err := os.ReadFile(k.path(name + ".pub"))
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	return key, err
}

// newKey makes a key pair in OpenSSH's formats.
func newKey(kind, comment string) (private, public []byte, err error) {
	var key crypto.Signer
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		err = fmt.Errorf("unknown kind %q", kind)
	}
	if err != nil {
		return nil, nil, err
	}
	pub, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(pub), nil
}
