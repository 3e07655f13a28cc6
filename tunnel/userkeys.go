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
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// userKeys are the keys to offer at one login, from the agent and from files, in
// OpenSSH's order.
type userKeys struct {
	ctx   context.Context
	try   *attempt
	s     *sshconfig.Settings
	agent *agentKeys

	offered     []string         // the offered keys, for display
	spent       map[string]bool  // the keys that were asked to sign; they are not offered again
	touch       bool             // a key needed a touch
	used        *ssh.Certificate // the certificate that signed last; nil: a plain key
	signFailure string           // why a key that the server accepts did not sign
	cause       error            // the error behind signFailure
	tooLate     bool             // the server hung up before a key had signed
	noAgent     error
	expired     string // which certificate was not offered, and when it expired
}

func newUserKeys(ctx context.Context, t *attempt) *userKeys {
	return &userKeys{ctx: ctx, try: t, s: &t.settings, spent: map[string]bool{}}
}

func (k *userKeys) close() {
	if k.agent != nil {
		k.agent.close()
	}
}

// signers lists the keys: certificates first, then agent keys named in the
// settings, other agent keys, and keys that only a file has.
func (k *userKeys) signers() []ssh.Signer {
	files, held := k.fileKeys(), k.agentKeys()
	list := k.certificates(files, held)
	var onlyFiles []ssh.Signer
	for _, f := range files {
		if s := signerOf(held, f.public); s != nil {
			list = append(list, s)
		} else if f.private() {
			onlyFiles = append(onlyFiles, f)
		}
	}
	if !k.s.IdentitiesOnly {
		list = append(list, held...)
	}
	return k.usable(append(list, onlyFiles...))
}

// signerOf is the one with that key; nil: none is.
func signerOf(signers []ssh.Signer, key ssh.PublicKey) ssh.Signer {
	for _, s := range signers {
		if sshconfig.SameKey(key, s.PublicKey()) {
			return s
		}
	}
	return nil
}

// offer records that a key is offered to the server.
func (k *userKeys) offer(s ssh.Signer) {
	k.offered = append(k.offered, sshconfig.DescribeKey(s.PublicKey()))
}

// usable drops keys that were used or listed before, or that the settings forbid, and watches the
// others.
func (k *userKeys) usable(list []ssh.Signer) []ssh.Signer {
	var out []ssh.Signer
	k.offered = nil
	seen := map[string]bool{}
	for _, s := range list {
		blob := string(s.PublicKey().Marshal())
		if k.spent[blob] || seen[blob] {
			continue
		}
		seen[blob] = true
		usable, err := k.s.Restrict(watchedSigner{s, k.sign})
		if err = cmp.Or(k.s.CheckRSASize(s.PublicKey()), err); err != nil {
			k.try.Warn(fmt.Sprintf("the key %s is not used: %v", ssh.FingerprintSHA256(s.PublicKey()), err))
			continue
		}
		out = append(out, usable)
	}
	return out
}

// sign has a key sign, which may need a person's touch or confirmation, and records the
// result.
func (k *userKeys) sign(key ssh.PublicKey, sign func() (*ssh.Signature, error)) (*ssh.Signature, error) {
	k.try.awaitPerson()
	signature, err := sign()
	k.try.awaitHost()
	k.tooLate = k.ctx.Err() != nil
	k.signed(key, err)
	return signature, err
}

func (k *userKeys) signed(key ssh.PublicKey, err error) {
	k.spent[string(key.Marshal())] = true
	k.touch = k.touch || strings.HasPrefix(key.Type(), "sk-")
	if err != nil {
		k.signFailure = fmt.Sprintf("the server accepts the key %s, which could not sign: %v", ssh.FingerprintSHA256(key), err)
		k.cause = err
		k.try.log.Info("a key could not sign", "key", ssh.FingerprintSHA256(key), "err", err)
		return
	}
	k.used, _ = key.(*ssh.Certificate)
	k.signFailure, k.cause = "", nil
}

// fileKeys are the key files that exist and can be read.
func (k *userKeys) fileKeys() []*fileKey {
	var keys []*fileKey
	for _, path := range k.s.IdentityFiles {
		key, err := loadKey(path, &k.try.pool.keys, k.passphrase)
		switch {
		case err == nil:
			keys = append(keys, key)
		case errors.Is(err, fs.ErrNotExist) && !k.s.OwnIdentities:
		case errors.Is(err, failure.ErrNobody):
			k.cause = err
		case errors.Is(err, fs.ErrNotExist):
			k.try.Warn(fmt.Sprintf("the key file %s, an IdentityFile of your ssh config, does not exist", path))
		default:
			k.try.Warn(fmt.Sprintf("the key %s is not used: %v", path, err))
		}
	}
	return keys
}

// passphrase asks for the passphrase of a key file.
func (k *userKeys) passphrase(question api.Prompt) (string, error) {
	answer, err := k.try.Prompt(k.ctx, question)
	if errors.Is(err, failure.ErrNobody) {
		k.try.denied = nil // another key may work
	}
	return answer.Text, err
}

// agentKeys are those of the person's ssh-agent. Each login dials it again, since its
// socket changes.
func (k *userKeys) agentKeys() []ssh.Signer {
	if k.agent == nil {
		k.agent, k.noAgent = dialAgent(k.ctx, k.s, k.try.pool.envs())
	}
	if k.agent == nil {
		return nil
	}
	list, err := k.agent.Signers()
	if err != nil {
		k.noAgent = err
		k.try.Warn(fmt.Sprintf("the ssh-agent does not list its keys: %v", err))
	}
	return list
}

// certificates pairs certificate files with the keys they belong to.
func (k *userKeys) certificates(files []*fileKey, held []ssh.Signer) []ssh.Signer {
	keys := make([]string, len(files))
	for i, f := range files {
		keys[i] = f.path
	}
	var list []ssh.Signer
	for _, path := range certificateFiles(k.s, keys) {
		cert, err := loadCertificate(path, time.Now())
		if err != nil {
			if errors.Is(err, errExpired) {
				k.expired = fmt.Sprintf("the certificate %s %v", path, err)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				k.try.Warn(fmt.Sprintf("the certificate %s is not used: %v", path, err))
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

// owner finds the private key of a certificate.
func (k *userKeys) owner(cert *ssh.Certificate, files []*fileKey, held []ssh.Signer) ssh.Signer {
	if s := signerOf(held, cert.Key); s != nil {
		return s
	}
	for _, f := range files {
		if sshconfig.SameKey(cert.Key, f.public) && f.private() {
			return f
		}
	}
	return nil
}

// renewHint says how to get a new certificate.
func (k *userKeys) renewHint() string {
	switch {
	case k.s.BeforeLogin != "":
		return k.expired + ", and before_login has not renewed it: run its command in a terminal"
	case k.s.RenewCertificate != "":
		return fmt.Sprintf("%s: `%s` gets a new one; as before_login it does so at each login", k.expired, k.s.RenewCertificate)
	}
	return k.expired + ": get a new one as your site describes; a command for that can be before_login"
}

// describe lists the offered keys.
func (k *userKeys) describe() string { return cmp.Or(strings.Join(k.offered, ", "), "no key") }

// hint says where keys were looked for.
func (k *userKeys) hint() string {
	why := cmp.Or(k.noAgent, errors.New("the ssh-agent has none"))
	return fmt.Sprintf("%v, and there is no key file; `ssh-keygen` creates a key, which you register with the site", why)
}

// watchedSigner makes each signature through watch.
type watchedSigner struct {
	ssh.Signer
	watch func(key ssh.PublicKey, sign func() (*ssh.Signature, error)) (*ssh.Signature, error)
}

// Sign implements ssh.Signer.
func (w watchedSigner) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	return w.watch(w.PublicKey(), func() (*ssh.Signature, error) { return w.Signer.Sign(rand.Reader, data) })
}

// SignWithAlgorithm implements ssh.AlgorithmSigner, as all keys of agents and files do.
func (w watchedSigner) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	as, ok := w.Signer.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("this kind of key is not supported")
	}
	return w.watch(w.PublicKey(), func() (*ssh.Signature, error) { return as.SignWithAlgorithm(rand.Reader, data, algorithm) })
}

// errExpired is wrapped by loadCertificate.
var errExpired = errors.New("expired")

// loadCertificate reads a user certificate that is valid now.
func loadCertificate(path string, now time.Time) (*ssh.Certificate, error) {
	cert, err := readCertificate(path)
	switch ends := certificateEnd(cert); {
	case err != nil:
		return nil, err
	case !ends.IsZero() && !now.Before(ends):
		return nil, fmt.Errorf("%w at %s", errExpired, ends.Format(time.DateTime))
	case uint64(now.Unix()) < cert.ValidAfter:
		return nil, fmt.Errorf("not valid before %s", time.Unix(int64(cert.ValidAfter), 0).Format(time.DateTime))
	}
	return cert, nil
}

// certificateEnd is when a certificate expires; zero: never, or there is none.
func certificateEnd(cert *ssh.Certificate) time.Time {
	if cert == nil || cert.ValidBefore == ssh.CertTimeInfinity {
		return time.Time{}
	}
	return time.Unix(int64(cert.ValidBefore), 0)
}

// certificateFiles are where certificates of key files may be.
func certificateFiles(s *sshconfig.Settings, keys []string) []string {
	paths := slices.Clone(s.CertificateFiles)
	for _, key := range keys {
		paths = append(paths, key+"-cert.pub")
	}
	return paths
}

// CertificateEnds is when the certificate file for the next login expires, of several the
// last; zero: there is none, or it never expires.
func CertificateEnds(s *sshconfig.Settings) time.Time {
	var last time.Time
	for _, path := range certificateFiles(s, s.IdentityFiles) {
		if cert, err := readCertificate(path); err == nil && certificateEnd(cert).After(last) {
			last = certificateEnd(cert)
		}
	}
	return last
}

// readCertificate reads a user certificate.
func readCertificate(path string) (*ssh.Certificate, error) {
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
	}
	return cert, nil
}
