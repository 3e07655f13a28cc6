// Package userkeys is who the user is at a login: keys from files and from ssh-agents,
// certificates, and the saved password. It is given an [Asker] for passphrases, and knows
// nothing of the server: which method is tried when is decided in package tunnel.
package userkeys

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// Asker asks the user for a passphrase, and tells why a key is not used. A login attempt
// of package tunnel implements it.
type Asker interface {
	// Prompt's error wraps failure.ErrNobody if nobody can be asked.
	Prompt(ctx context.Context, p api.Prompt) (api.Answer, error)
	Warn(text string)
}

// Options are where keys come from.
type Options struct {
	Settings *sshconfig.Settings
	Asker    Asker
	Keyring  *Keyring
	Envs     []api.Env // that may name an ssh-agent, the newest first
	// Passphrase, if set, is that of a key that tunctl has made, which the user does not know.
	Passphrase func(ctx context.Context, path string) (string, error)
	// Signing is called before a key signs, which may need the user's touch or
	// confirmation, and what it returns is called after that.
	Signing func() (done func())
	Log     *slog.Logger
}

// Keys are the keys to offer at one login, from the agent and from files, in OpenSSH's
// order. The exported fields tell what became of them so far.
type Keys struct {
	Offered     []string // the offered keys, for display
	Touched     bool     // a key needed a touch
	SignFailure string   // why a key that the server accepts did not sign
	Cause       error    // the error behind SignFailure, or why a key file was not read
	TooLate     bool     // the server hung up before a key had signed
	Expired     string   // which certificate was not offered, and when it expired

	ctx     context.Context //nolint:containedctx // of the login
	o       Options
	s       *sshconfig.Settings
	agent   *agentKeys
	spent   map[string]bool  // the keys that were asked to sign; they are not offered again
	used    *ssh.Certificate // the certificate that signed last; nil: a plain key
	noAgent error
}

// New returns the keys of a login, which ends with ctx. The caller closes them.
func New(ctx context.Context, o Options) *Keys {
	return &Keys{ctx: ctx, o: o, s: o.Settings, spent: map[string]bool{}}
}

// Close ends the connection to the agent.
func (k *Keys) Close() {
	if k.agent != nil {
		k.agent.close()
	}
}

// Signers lists the keys: certificates first, then agent keys named in the
// settings, other agent keys, and keys that only a file has.
func (k *Keys) Signers() []ssh.Signer {
	if preferred := k.s.PreferredAuthentications; k.s.OwnKey != "" && (!k.s.PubkeyAuthentication || len(preferred) > 0 && !slices.Contains(preferred, "publickey")) {
		return k.usable(lists.Map(k.fileKeys(k.s.OwnKey), func(f *fileKey) ssh.Signer { return f })) // the user wants no others
	}
	files, held := k.fileKeys(slices.Concat([]string{k.s.OwnKey}, k.s.IdentityFiles)...), k.agentKeys()
	list := k.certificates(files, held)
	var onlyFiles []ssh.Signer
	for _, f := range files {
		if f.own { // before the many that an agent may have: servers count refused ones
			list = append([]ssh.Signer{f}, list...)
		} else if s := signerOf(held, f.public); s != nil {
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
	return lists.Find(signers, func(s ssh.Signer) bool { return sshconfig.SameKey(key, s.PublicKey()) })
}

// Offer records that a key is offered to the server.
func (k *Keys) Offer(s ssh.Signer) {
	k.Offered = append(k.Offered, sshconfig.DescribeKey(s.PublicKey()))
}

// usable drops keys that were used or listed before, or that the settings forbid, and watches the
// others.
func (k *Keys) usable(list []ssh.Signer) []ssh.Signer {
	var out []ssh.Signer
	k.Offered = nil
	seen := map[string]bool{}
	for _, s := range list {
		blob := string(s.PublicKey().Marshal())
		if k.spent[blob] || seen[blob] {
			continue
		}
		seen[blob] = true
		usable, err := k.s.Restrict(watchedSigner{s, k.sign})
		if err = cmp.Or(k.s.CheckRSASize(s.PublicKey()), err); err != nil {
			k.o.Asker.Warn(fmt.Sprintf("the key %s is not used: %v", ssh.FingerprintSHA256(s.PublicKey()), err))
			continue
		}
		out = append(out, usable)
	}
	return out
}

// sign has a key sign, which may need the user's touch or confirmation, and records the
// result.
func (k *Keys) sign(key ssh.PublicKey, sign func() (*ssh.Signature, error)) (*ssh.Signature, error) {
	done := k.o.Signing()
	signature, err := sign()
	done()
	k.TooLate = k.ctx.Err() != nil
	k.spent[string(key.Marshal())] = true
	k.Touched = k.Touched || strings.HasPrefix(key.Type(), "sk-")
	if err != nil {
		k.SignFailure = fmt.Sprintf("the server accepts the key %s, which could not sign: %v", ssh.FingerprintSHA256(key), err)
		k.Cause = err
		k.o.Log.Info("a key could not sign", "key", ssh.FingerprintSHA256(key), "err", err)
		return nil, err
	}
	k.used, _ = key.(*ssh.Certificate)
	k.SignFailure, k.Cause = "", nil
	return signature, nil
}

// HasSigned reports whether a key was asked to sign, which the server accepts.
func (k *Keys) HasSigned() bool { return len(k.spent) > 0 }

// fileKeys are the key files that exist and can be read.
func (k *Keys) fileKeys(paths ...string) []*fileKey {
	var keys []*fileKey
	for _, path := range slices.DeleteFunc(paths, func(path string) bool { return path == "" }) {
		key, err := loadKey(path, k.o.Keyring, k.asks(path))
		switch {
		case err == nil:
			key.own = path == k.s.OwnKey
			keys = append(keys, key)
		case errors.Is(err, fs.ErrNotExist) && !k.s.OwnIdentities:
		case errors.Is(err, failure.ErrNobody):
			k.Cause = err
		case errors.Is(err, fs.ErrNotExist):
			k.o.Asker.Warn(fmt.Sprintf("the key file %s, an IdentityFile of your ssh config, does not exist", path))
		default:
			k.o.Asker.Warn(fmt.Sprintf("the key %s is not used: %v", path, err))
		}
	}
	return keys
}

// asks returns what asks for the passphrase of a key file: the user, or the keyring.
func (k *Keys) asks(path string) func(api.Prompt) (string, error) {
	return func(question api.Prompt) (string, error) {
		if path == k.s.OwnKey && k.o.Passphrase != nil {
			return k.o.Passphrase(k.ctx, path)
		}
		answer, err := k.o.Asker.Prompt(k.ctx, question)
		return answer.Text, err
	}
}

// agentKeys are those of the user's ssh-agent. Each login dials it again, since its
// socket changes.
func (k *Keys) agentKeys() []ssh.Signer {
	if k.agent == nil {
		k.agent, k.noAgent = dialAgent(k.ctx, k.s, k.o.Envs)
	}
	if k.agent == nil {
		return nil
	}
	list, err := k.agent.Signers()
	if err != nil {
		k.noAgent = err
		k.o.Asker.Warn(fmt.Sprintf("the ssh-agent does not list its keys: %v", err))
	}
	return list
}

// certificates pairs certificate files with the keys they belong to.
func (k *Keys) certificates(files []*fileKey, held []ssh.Signer) []ssh.Signer {
	keys := lists.Map(files, func(f *fileKey) string { return f.path })
	var list []ssh.Signer
	for _, path := range certificateFiles(k.s, keys) {
		cert, err := loadCertificate(path, time.Now())
		if err != nil {
			if errors.Is(err, errExpired) {
				k.Expired = fmt.Sprintf("the certificate %s %v", path, err)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				k.o.Asker.Warn(fmt.Sprintf("the certificate %s is not used: %v", path, err))
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
func (k *Keys) owner(cert *ssh.Certificate, files []*fileKey, held []ssh.Signer) ssh.Signer {
	if s := signerOf(held, cert.Key); s != nil {
		return s
	}
	if f := lists.Find(files, func(f *fileKey) bool { return sshconfig.SameKey(cert.Key, f.public) && f.private() }); f != nil {
		return f
	}
	return nil
}

// RenewHint says how to get a new certificate.
func (k *Keys) RenewHint() string {
	switch {
	case k.s.BeforeLogin != "":
		return k.Expired + ", and before_login has not renewed it: run its command in a terminal"
	case k.s.RenewCertificate != "":
		return fmt.Sprintf("%s: `%s` gets a new one; as before_login it does so at each login", k.Expired, k.s.RenewCertificate)
	}
	return k.Expired + ": get a new one as your site describes; a command for that can be before_login"
}

// Describe lists the offered keys.
func (k *Keys) Describe() string { return cmp.Or(strings.Join(k.Offered, ", "), "no key") }

// Hint says where keys were looked for.
func (k *Keys) Hint() string {
	why := cmp.Or(k.noAgent, errors.New("the ssh-agent has none"))
	return fmt.Sprintf("%v, and there is no key file; `ssh-keygen` creates a key, which you register with the site", why)
}

// watchedSigner makes each signature through watch.
type watchedSigner struct {
	ssh.Signer // as all keys of agents and files an ssh.AlgorithmSigner
	watch      func(key ssh.PublicKey, sign func() (*ssh.Signature, error)) (*ssh.Signature, error)
}

// Sign implements ssh.Signer.
func (w watchedSigner) Sign(r io.Reader, data []byte) (*ssh.Signature, error) {
	return w.SignWithAlgorithm(r, data, "")
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (w watchedSigner) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	return w.watch(w.PublicKey(), func() (*ssh.Signature, error) {
		return w.Signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, data, algorithm)
	})
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

// CertificateEnd is when the certificate that signed last expires; zero: never, or a plain
// key signed.
func (k *Keys) CertificateEnd() time.Time { return certificateEnd(k.used) }

// certificateFiles are where certificates of key files may be.
func certificateFiles(s *sshconfig.Settings, keys []string) []string {
	return slices.Concat(s.CertificateFiles, lists.Map(keys, func(key string) string { return key + "-cert.pub" }))
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
