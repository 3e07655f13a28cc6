// Package hostkey decides whether a server is the right one, as OpenSSH does: by
// known_hosts files, host certificates and lists of revoked keys. It is given an [Asker]
// for the user's decision about a new key, and knows nothing of the login that follows.
package hostkey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// lookupTimeout bounds the lookup of the host's addresses.
const lookupTimeout = 3 * time.Second

// Asker asks the user about a key, and tells what does not stop the login. A login attempt
// of package tunnel implements it.
type Asker interface {
	// Prompt's error wraps failure.ErrNobody if nobody can be asked.
	Prompt(ctx context.Context, p api.Prompt) (api.Answer, error)
	Warn(text string)
}

// Options are what a Checker needs besides the server's key.
type Options struct {
	Settings *sshconfig.Settings
	Host     string // as the user calls it
	Asker    Asker
	Lookup   func(ctx context.Context, host string) ([]string, error) // DNS
	Log      *slog.Logger
}

// Checker checks a server's key against the known_hosts files of one login.
type Checker struct {
	o  Options
	s  *sshconfig.Settings
	db *knownHosts

	config   ssh.Config
	offered  []string // the algorithms that the server can choose from; see order
	accepted ssh.PublicKey
}

// Load reads the known keys, and decides which algorithms to offer.
func Load(o Options) (*Checker, error) {
	config, algorithms, err := o.Settings.Algorithms()
	if err != nil {
		return nil, err
	}
	db, err := readKnownHosts(slices.Concat(o.Settings.UserKnownHosts, o.Settings.GlobalKnownHosts))
	if err != nil {
		return nil, failure.Permanent.Errorf(api.CodeHostKey, err, "known_hosts cannot be read: %v", err)
	}
	for _, w := range db.warnings {
		o.Asker.Warn(w)
	}
	k := &Checker{o: o, s: o.Settings, db: db, config: config}
	k.offered = k.order(algorithms)
	return k, nil
}

// Algorithms are the library's configuration, and the algorithms of host keys to offer.
func (k *Checker) Algorithms() (common ssh.Config, hostKeys []string) { return k.config, k.offered }

// Accepted is the key that Check accepted; nil: none yet.
func (k *Checker) Accepted() ssh.PublicKey { return k.accepted }

// name is the host's name in known_hosts. An alias has no port.
func (k *Checker) name() string {
	if k.s.HostKeyAlias != "" {
		return net.JoinHostPort(k.s.HostKeyAlias, "22")
	}
	return net.JoinHostPort(strings.ToLower(k.s.Hostname), strconv.Itoa(k.s.Port))
}

// order puts the algorithms of known keys first. Go offers ECDSA first, and a
// server then shows a key that known_hosts does not have (golang/go#29286).
func (k *Checker) order(offered []string) []string {
	known := slices.DeleteFunc(k.db.HostKeyAlgorithms(k.name()), func(a string) bool { return !slices.Contains(offered, a) })
	return slices.Concat(known, slices.DeleteFunc(slices.Clone(offered), func(a string) bool { return slices.Contains(known, a) }))
}

// CouldShow reports whether a server that has a key could have shown it.
func (k *Checker) CouldShow(key ssh.PublicKey) bool {
	return slices.ContainsFunc(k.offered, func(algorithm string) bool { return keyTypeOf(algorithm) == key.Type() })
}

// keyTypeOf is the type of the keys that an algorithm signs with.
func keyTypeOf(algorithm string) string {
	switch algorithm {
	case ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512:
		return ssh.KeyAlgoRSA
	case ssh.CertAlgoRSASHA256v01, ssh.CertAlgoRSASHA512v01:
		return ssh.CertAlgoRSAv01
	}
	return algorithm
}

// Check decides about a key as OpenSSH does: a certificate counts by its authority or,
// if that is unknown, only as the plain key in it. It may ask the user.
func (k *Checker) Check(ctx context.Context, remote net.Addr, key ssh.PublicKey) error {
	err := k.check(ctx, remote, key)
	if err == nil {
		k.accepted = key
	}
	return err
}

func (k *Checker) check(ctx context.Context, remote net.Addr, key ssh.PublicKey) error {
	if _, _, err := net.SplitHostPort(remote.String()); err != nil {
		remote = &net.TCPAddr{IP: net.IPv4zero} // a pipe or a channel has no address
	}
	if err := k.s.CheckRSASize(key); err != nil {
		return k.refuse(fmt.Sprintf("the host key of %s is not accepted: %v", k.display(), err), "ask the site's support for a longer key")
	}
	if err := k.checkRevoked(ctx, remote, key); err != nil {
		return err
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return k.checkPlain(ctx, remote, key, nil)
	}
	flaw := k.checkCertificate(remote, cert)
	if flaw == nil {
		return nil
	}
	k.o.Log.Debug("the host certificate is ignored, its key counts", "err", flaw)
	if !k.isAuthority(cert.SignatureKey) {
		flaw = nil // anybody can sign anything
	}
	return k.checkPlain(ctx, remote, cert.Key, flaw)
}

// checkRevoked refuses a key if RevokedHostKeys or known_hosts has it, or the authority
// that signed it, as revoked.
func (k *Checker) checkRevoked(ctx context.Context, remote net.Addr, key ssh.PublicKey) error {
	if path := k.s.RevokedHostKeys; path != "" {
		revoked, err := isRevoked(ctx, path, key)
		if err != nil {
			return k.refuse(fmt.Sprintf("no host key is accepted while RevokedHostKeys %q cannot be read: %v", path, err), "fix the file, or the setting in your ssh config")
		}
		if revoked {
			return k.refuse(fmt.Sprintf("the host key of %s (%s) is revoked by %q", k.display(), ssh.FingerprintSHA256(key), path), "do not log in; ask the site's support")
		}
	}
	for _, part := range parts(key) {
		if r, ok := errors.AsType[*xknownhosts.RevokedError](k.db.HostKeyCallback()(k.name(), remote, part)); ok {
			return k.refuse(fmt.Sprintf("the host key of %s (%s) is marked as revoked at %s:%d", k.display(), ssh.FingerprintSHA256(part),
				k.db.origin(r.Revoked.Filename), r.Revoked.Line), "do not log in; ask the site's support")
		}
	}
	return nil
}

// checkCertificate says why a certificate is not accepted.
func (k *Checker) checkCertificate(remote net.Addr, cert *ssh.Certificate) error {
	if !k.s.AcceptsCASignature(cert.Signature.Format) {
		return fmt.Errorf("the signature algorithm %q is not in CASignatureAlgorithms", cert.Signature.Format)
	}
	var first error
	for _, name := range k.names() {
		err := k.db.HostKeyCallback()(name, remote, cert)
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}

// checkPlain decides about a plain key. flaw is why the certificate of a known authority
// was not accepted; nil: there is none.
func (k *Checker) checkPlain(ctx context.Context, remote net.Addr, key ssh.PublicKey, flaw error) error {
	if k.isKnown(k.name(), key) {
		return nil
	}
	others, old := []xknownhosts.KnownKey{}, []xknownhosts.KnownKey{}
	if mismatch, ok := errors.AsType[*xknownhosts.KeyError](k.db.HostKeyCallback()(k.name(), remote, key)); ok {
		for _, known := range mismatch.Want {
			switch {
			case k.isAuthority(known.Key) && !k.isKnown(k.name(), known.Key):
			case known.Key.Type() == key.Type():
				old = append(old, known)
			default:
				others = append(others, known)
			}
		}
	}
	switch {
	case len(old) > 0:
		return k.changed(ctx, key, old)
	case slices.ContainsFunc(k.names(), func(name string) bool { return k.isKnown(name, key) }):
		return nil
	case flaw != nil:
		return k.refuse(fmt.Sprintf("the host certificate of %s is not valid: %v", k.display(), api.RemoteError(flaw)), "ask the site's support")
	}
	return k.unknown(ctx, key, others)
}

// isKnown reports whether known_hosts has this key for a name, and not as an authority.
func (k *Checker) isKnown(name string, key ssh.PublicKey) bool {
	return slices.ContainsFunc(k.db.HostKeys(name), func(known knownhosts.PublicKey) bool { return !known.Cert && sshconfig.SameKey(known.PublicKey, key) })
}

// isAuthority reports whether known_hosts trusts this key to sign the host's keys.
func (k *Checker) isAuthority(key ssh.PublicKey) bool {
	return slices.ContainsFunc(k.names(), func(name string) bool {
		return slices.ContainsFunc(k.db.HostKeys(name), func(known knownhosts.PublicKey) bool { return known.Cert && sshconfig.SameKey(known.PublicKey, key) })
	})
}

// names are those that a key may be known by. A host on another port is also known by
// its name alone.
func (k *Checker) names() []string {
	if k.s.HostKeyAlias != "" || k.s.Port == 22 {
		return []string{k.name()}
	}
	return []string{k.name(), net.JoinHostPort(strings.ToLower(k.s.Hostname), "22")}
}

// CheckSame accepts only the first key in later key exchanges of the connection. It asks
// nobody.
func (k *Checker) CheckSame(key ssh.PublicKey) error {
	if !sshconfig.SameKey(k.accepted, key) {
		return k.refuse(fmt.Sprintf("%s changed its host key during the connection", k.display()), "")
	}
	return nil
}

// Plain is the key in a certificate, or the key itself.
func Plain(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key
	}
	return key
}

// parts are the keys of which each, if it is revoked, revokes a key or a certificate.
func parts(key ssh.PublicKey) []ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return []ssh.PublicKey{cert.Key, cert.SignatureKey}
	}
	return []ssh.PublicKey{key}
}

// unknown decides about a new key; others are known keys of other types. A server that
// has one of those would have shown it, since their algorithms come first. So only a
// user can accept the new key then.
func (k *Checker) unknown(ctx context.Context, key ssh.PublicKey, others []xknownhosts.KnownKey) error {
	shown := ssh.FingerprintSHA256(key)
	expected := slices.DeleteFunc(slices.Clone(others), func(known xknownhosts.KnownKey) bool { return !k.CouldShow(known.Key) })
	switch k.s.StrictHostKeyChecking {
	case "yes":
		message := fmt.Sprintf("the host key of %s is unknown (%s), and StrictHostKeyChecking is on", k.display(), shown)
		if len(others) > 0 {
			message += "; known_hosts has keys of other types: " + k.list(others)
		}
		return k.refuse(message, "check the fingerprint, then connect once with `ssh "+k.s.Alias+"`")
	case "no", "accept-new":
		if len(expected) > 0 {
			return k.changed(ctx, key, expected)
		}
		return k.accept(key)
	}
	text := fmt.Sprintf("The authenticity of %s can't be established. Its %s key fingerprint is %s.", k.display(), sshconfig.KeyType(key), shown)
	switch {
	case len(expected) > 0:
		text += " known_hosts has keys of other types for this host, and the server offers none of them: " + k.list(others) + "."
	case len(others) > 0:
		text += " known_hosts has keys of other types for this host, which your ssh settings do not accept: " + k.list(others) + "."
	}
	text += " " + k.comparison(shown) + " Trust it?"
	answer, err := k.o.Asker.Prompt(ctx, api.Prompt{Kind: api.PromptHostKey, Echo: true, Fingerprint: shown, Text: text})
	if err != nil {
		if errors.Is(err, failure.ErrNobody) {
			return failure.NeedsUser.Errorf(api.CodeNeedsPerson, err,
				"the host key of %s is unknown (%s), and there was no terminal or desktop to ask", k.display(), shown).WithHint("run `tunctl login %s` in a terminal", k.o.Host)
		}
		return err
	}
	if answer.IsYes() || answer.Text == shown {
		return k.accept(key)
	}
	return failure.NeedsUser.Errorf(api.CodeNeedsPerson, nil, "you did not accept the host key of %s (%s)",
		k.display(), shown).
		WithHint("compare the fingerprint with the one that the site publishes; `tunctl login %s` asks again", k.o.Host)
}

// comparison says what to compare a fingerprint with, or how it compares with those that the site publishes.
func (k *Checker) comparison(shown string) string {
	published, where := k.s.PublishedHostKeys, ""
	if k.s.HostKeysPage != "" {
		where = " (" + k.s.HostKeysPage + ")"
	} else if k.s.SiteHelp != "" {
		where = " (its pages begin at " + k.s.SiteHelp + ")"
	}
	if slices.Contains(published, shown) {
		return "The site publishes this fingerprint."
	}
	if len(published) > 0 {
		return "The site publishes others: " + strings.Join(published, ", ") + ". Another machine may be posing as this host, so stop, and ask the site's support" + where + "."
	}
	return "Compare it with the one that your computing centre publishes" + where + ". If they differ, stop: another machine may be posing as this host."
}

// accept appends the key to the first known_hosts file, as OpenSSH does.
func (k *Checker) accept(key ssh.PublicKey) error {
	k.o.Log.Info("new host key accepted", "fingerprint", ssh.FingerprintSHA256(key))
	if len(k.s.UserKnownHosts) == 0 {
		return nil
	}
	name := xknownhosts.Normalize(k.name())
	if k.s.HashKnownHosts {
		name = xknownhosts.HashHostname(name)
	}
	if err := appendLine(k.s.UserKnownHosts[0], xknownhosts.Line([]string{name}, key)+"\n"); err != nil {
		k.o.Asker.Warn(fmt.Sprintf("the host key could not be saved: %v", err))
	}
	return nil
}

// changed refuses a key where known_hosts has others. Removing those does not help if several
// machines share the name: each of them shows its own.
func (k *Checker) changed(ctx context.Context, key ssh.PublicKey, old []xknownhosts.KnownKey) error {
	name, file := k.display(), k.db.origin(old[0].Filename)
	message := fmt.Sprintf("the host key of %s has changed: the server offers %s, known_hosts has %s", name, sshconfig.DescribeKey(key), k.list(old))
	add := fmt.Sprintf("add this line to %q: %s", file, xknownhosts.Line([]string{name}, key))
	published := k.s.PublishedHostKeys
	switch {
	case !k.isShared(ctx, old):
		return k.refuse(message, fmt.Sprintf("someone may be intercepting the connection. If the site announced a new key, remove the old one with `ssh-keygen -R %q -f %q`", name, file))
	case slices.Contains(published, ssh.FingerprintSHA256(key)):
		return k.refuse(message, "several machines share this name, and the site publishes this key: add the other key too. To do so, "+add)
	case len(published) > 0:
		return k.refuse(message, "several machines share this name, but the site does not publish this key: someone may be intercepting the connection. Ask the site's support. It publishes "+strings.Join(published, ", "))
	}
	return k.refuse(message, "several machines share this name: add the other key too. Someone may also be intercepting the connection, so compare the fingerprint with those that the site publishes; then "+add)
}

// isShared reports whether several machines share the host's name: known_hosts has several keys
// of one type for it, or DNS several addresses of one family.
func (k *Checker) isShared(ctx context.Context, old []xknownhosts.KnownKey) bool {
	for i, known := range old {
		if slices.ContainsFunc(old[:i], func(x xknownhosts.KnownKey) bool {
			return x.Key.Type() == known.Key.Type() && !sshconfig.SameKey(x.Key, known.Key)
		}) {
			return true
		}
	}
	if len(k.s.ProxyJump) > 0 || k.s.ProxyCommand != "" {
		return false // the name is looked up elsewhere
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, _ := k.o.Lookup(ctx, k.s.Hostname)
	ipv6 := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return !strings.Contains(a, ":") })
	return len(ipv6) > 1 || len(addresses)-len(ipv6) > 1
}

// list describes known keys and where they are.
func (k *Checker) list(keys []xknownhosts.KnownKey) string {
	where := lists.Map(keys, func(known xknownhosts.KnownKey) string {
		return fmt.Sprintf("%s (%s:%d)", sshconfig.DescribeKey(known.Key), k.db.origin(known.Filename), known.Line)
	})
	return strings.Join(where, ", ")
}

func (k *Checker) refuse(message, hint string) error {
	return failure.Permanent.Errorf(api.CodeHostKey, nil, "%s", message).WithHint("%s", hint)
}

func (k *Checker) display() string { return xknownhosts.Normalize(k.name()) }

// appendLine appends a line to a file, which it creates if needed. It first ends a last
// line without a newline.
func appendLine(path, line string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	return f.Close()
}
