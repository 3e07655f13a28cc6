package tunnel

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// keychain is the keys to offer at one login, from the agent and from files, in
// OpenSSH's order.
type keychain struct {
	ctx   context.Context
	try   *attempt
	s     *sshconfig.Settings
	agent *agentKeys

	offered []string         // what was offered, as shown to a person
	spent   map[string]bool  // the keys that were to sign; not offered twice
	touch   bool             // a key wanted a finger on it
	used    *ssh.Certificate // the certificate that signed last; nil: a plain key did
	unable  string           // why a key that the server accepts has not signed
	cause   error            // the error behind that
	noAgent error
}

func newKeychain(ctx context.Context, t *attempt) *keychain {
	return &keychain{ctx: ctx, try: t, s: &t.settings, spent: map[string]bool{}}
}

func (k *keychain) close() {
	if k.agent != nil {
		k.agent.close()
	}
}

// signers lists the keys: certificates first, then agent keys named in the
// settings, other agent keys, and keys that only a file has.
func (k *keychain) signers() []ssh.Signer {
	files := k.fileKeys()
	held := k.agentKeys()
	named := func(s ssh.Signer) bool {
		return slices.ContainsFunc(files, func(f *fileKey) bool { return sameKey(f.public, s.PublicKey()) })
	}
	var list []ssh.Signer
	list = append(list, k.certificates(files, held)...)
	for _, f := range files {
		for _, s := range held {
			if sameKey(f.public, s.PublicKey()) {
				list = append(list, s)
			}
		}
	}
	if !k.s.IdentitiesOnly {
		list = append(list, slices.DeleteFunc(slices.Clone(held), named)...)
	}
	for _, f := range files {
		inAgent := slices.ContainsFunc(held, func(s ssh.Signer) bool { return sameKey(f.public, s.PublicKey()) })
		if !inAgent && f.private() {
			list = append(list, f)
		}
	}
	return k.wrap(list)
}

// offer notes that a key is shown to the server.
func (k *keychain) offer(s ssh.Signer) {
	k.offered = append(k.offered, describeKey(s.PublicKey()))
}

// wrap drops what was used before and what the settings rule out, and watches what is
// used now.
func (k *keychain) wrap(list []ssh.Signer) []ssh.Signer {
	var out []ssh.Signer
	k.offered = nil
	seen := map[string]bool{}
	for _, s := range list {
		blob := string(s.PublicKey().Marshal())
		if k.spent[blob] || seen[blob] {
			continue
		}
		seen[blob] = true
		usable, err := k.s.Restrict(s)
		if err = cmp.Or(k.s.CheckRSASize(s.PublicKey()), err); err != nil {
			k.try.warn(fmt.Sprintf("the key %s is not used: %v", ssh.FingerprintSHA256(s.PublicKey()), err))
			continue
		}
		out = append(out, watchSigner(usable, k.signed))
	}
	return out
}

// signed notes that a key was to sign, and how that went.
func (k *keychain) signed(key ssh.PublicKey, err error) {
	k.spent[string(key.Marshal())] = true
	k.touch = k.touch || strings.HasPrefix(key.Type(), "sk-")
	if err != nil {
		k.unable = fmt.Sprintf("the server accepts the key %s, which could not sign: %v", ssh.FingerprintSHA256(key), err)
		k.cause = err
		k.try.log.Info("a key could not sign", "key", ssh.FingerprintSHA256(key), "err", err)
		return
	}
	k.used, _ = key.(*ssh.Certificate)
	k.unable, k.cause = "", nil
}

// fileKeys are the key files that exist and can be read.
func (k *keychain) fileKeys() []*fileKey {
	var keys []*fileKey
	for _, path := range k.s.IdentityFiles {
		key, err := loadKey(path, &k.try.pool.keys, k.passphrase)
		switch {
		case err == nil:
			keys = append(keys, key)
		case errors.Is(err, fs.ErrNotExist) && !k.s.OwnIdentities:
		case errors.Is(err, ErrNobody):
			k.cause = err
		case errors.Is(err, fs.ErrNotExist):
			k.try.warn(fmt.Sprintf("the key file %s, an IdentityFile of your ssh config, does not exist", path))
		default:
			k.try.warn(fmt.Sprintf("the key %s is not used: %v", path, err))
		}
	}
	return keys
}

// passphrase asks for a key file's.
func (k *keychain) passphrase(question api.Prompt) (string, error) {
	answer, err := k.try.ask(k.ctx, question)
	if errors.Is(err, ErrNobody) {
		k.try.denied = nil // another key may do
	}
	return answer, err
}

// agentKeys are those of the person's ssh-agent, which is dialled again at each
// login since its socket changes.
func (k *keychain) agentKeys() []ssh.Signer {
	if k.agent == nil {
		k.agent, k.noAgent = dialAgent(k.ctx, k.s, k.try.pool.envs())
	}
	if k.agent == nil {
		return nil
	}
	list, err := k.agent.Signers()
	if err != nil {
		k.noAgent = err
		k.try.warn(fmt.Sprintf("the ssh-agent does not list its keys: %v", err))
	}
	return list
}

// certificates pairs certificate files with the keys they belong to.
func (k *keychain) certificates(files []*fileKey, held []ssh.Signer) []ssh.Signer {
	paths := slices.Clone(k.s.CertificateFiles)
	for _, f := range files {
		paths = append(paths, f.path+"-cert.pub")
	}
	var list []ssh.Signer
	for _, path := range paths {
		cert, err := loadCertificate(path, time.Now())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				k.try.warn(fmt.Sprintf("the certificate %s is not used: %v", path, err))
			}
			continue
		}
		if s := k.owner(cert, files, held); s != nil {
			if signer, err := ssh.NewCertSigner(cert, s); err == nil {
				list = append(list, signer)
			}
		}
	}
	return list
}

// owner finds the private half of a certificate.
func (k *keychain) owner(cert *ssh.Certificate, files []*fileKey, held []ssh.Signer) ssh.Signer {
	for _, s := range held {
		if sameKey(cert.Key, s.PublicKey()) {
			return s
		}
	}
	for _, f := range files {
		if sameKey(cert.Key, f.public) && f.private() {
			return f
		}
	}
	return nil
}

func (k *keychain) touched() bool { return k.touch }

// ends is when the certificate that logged in ends; zero for never.
func (k *keychain) ends() time.Time {
	if k.used == nil || k.used.ValidBefore == ssh.CertTimeInfinity {
		return time.Time{}
	}
	return time.Unix(int64(k.used.ValidBefore), 0)
}

func (k *keychain) count() int { return len(k.offered) }

// describe lists what was offered.
func (k *keychain) describe() string {
	if len(k.offered) == 0 {
		return "no key"
	}
	return strings.Join(k.offered, ", ")
}

// hint says where keys were looked for.
func (k *keychain) hint() string {
	if k.noAgent != nil {
		return fmt.Sprintf("%v, and there is no key file; `ssh-keygen` creates a key, which you register with the site", k.noAgent)
	}
	return "the ssh-agent has none, and there is no key file; `ssh-keygen` creates a key, which you register with the site"
}

func sameKey(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && string(a.Marshal()) == string(b.Marshal())
}

// watchSigner calls signed when the signer has signed, or failed to, and keeps its
// algorithms.
func watchSigner(s ssh.Signer, signed func(ssh.PublicKey, error)) ssh.Signer {
	w := watchedSigner{s, signed}
	switch s := s.(type) {
	case ssh.MultiAlgorithmSigner:
		return watchedMulti{watchedAlgorithm{w, s}, s}
	case ssh.AlgorithmSigner:
		return watchedAlgorithm{w, s}
	}
	return w
}

type watchedSigner struct {
	ssh.Signer
	signed func(ssh.PublicKey, error)
}

func (w watchedSigner) Sign(r io.Reader, data []byte) (*ssh.Signature, error) {
	signature, err := w.Signer.Sign(r, data)
	w.signed(w.PublicKey(), err)
	return signature, err
}

type watchedAlgorithm struct {
	watchedSigner
	as ssh.AlgorithmSigner
}

func (w watchedAlgorithm) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	signature, err := w.as.SignWithAlgorithm(rand.Reader, data, algorithm)
	w.signed(w.PublicKey(), err)
	return signature, err
}

type watchedMulti struct {
	watchedAlgorithm
	ms ssh.MultiAlgorithmSigner
}

func (w watchedMulti) Algorithms() []string { return w.ms.Algorithms() }

// loadCertificate reads a user certificate that is valid now.
func loadCertificate(path string, now time.Time) (*ssh.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, err
	}
	cert, ok := key.(*ssh.Certificate)
	switch {
	case !ok:
		return nil, errors.New("the file has a plain public key")
	case cert.CertType != ssh.UserCert:
		return nil, errors.New("the file has no user certificate")
	case cert.ValidBefore != ssh.CertTimeInfinity && uint64(now.Unix()) >= cert.ValidBefore:
		return nil, fmt.Errorf("expired at %s", time.Unix(int64(cert.ValidBefore), 0).Format(time.DateTime))
	case uint64(now.Unix()) < cert.ValidAfter:
		return nil, fmt.Errorf("not valid before %s", time.Unix(int64(cert.ValidAfter), 0).Format(time.DateTime))
	}
	return cert, nil
}
