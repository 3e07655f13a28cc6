package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"tunctl/internal/api"
)

// hostKeys checks a server's key against the known_hosts files of one try.
type hostKeys struct {
	ctx context.Context
	try *attempt
	s   *Settings
	db  *knownFiles

	shown ssh.PublicKey // the key that was accepted
}

func newHostKeys(ctx context.Context, t *attempt) *hostKeys {
	return &hostKeys{ctx: ctx, try: t, s: &t.settings}
}

func (k *hostKeys) load() error {
	db, err := readKnownFiles(slices.Concat(k.s.UserKnownHosts, k.s.GlobalKnownHosts))
	if err != nil {
		return &api.Error{Code: api.CodeHostKey, Message: fmt.Sprintf("the known hosts cannot be read: %v", err), Err: classPermanent.of(err)}
	}
	k.db = db
	for _, w := range db.warnings {
		k.try.warn(w)
	}
	return nil
}

// name is what the host is called in known_hosts. An alias stands without its port.
func (k *hostKeys) name() string {
	if k.s.HostKeyAlias != "" {
		return net.JoinHostPort(k.s.HostKeyAlias, "22")
	}
	return net.JoinHostPort(strings.ToLower(k.s.Hostname), strconv.Itoa(k.s.Port))
}

// order puts the algorithms of known keys first. Go offers ECDSA first, and a
// server then shows a key that known_hosts does not have (golang/go#29286).
func (k *hostKeys) order(offered []string) []string {
	known := slices.DeleteFunc(k.db.HostKeyAlgorithms(k.name()), func(a string) bool { return !slices.Contains(offered, a) })
	return append(known, slices.DeleteFunc(slices.Clone(offered), func(a string) bool { return slices.Contains(known, a) })...)
}

// check decides about a key as OpenSSH does.
func (k *hostKeys) check(remote net.Addr, key ssh.PublicKey) error {
	if _, _, err := net.SplitHostPort(remote.String()); err != nil {
		remote = &net.TCPAddr{IP: net.IPv4zero} // a pipe or a channel has no address
	}
	err := k.db.HostKeyCallback()(k.name(), remote, key)
	if err == nil {
		return nil
	}
	if revoked, ok := errors.AsType[*xknownhosts.RevokedError](err); ok {
		return k.revoked(key, revoked)
	}
	mismatch, ok := errors.AsType[*xknownhosts.KeyError](err)
	if !ok {
		if _, isCert := key.(*ssh.Certificate); isCert && k.knownAuthority() {
			return k.refuse(fmt.Sprintf("the certificate of %s is not good: %v", k.display(), err), "ask the site's support")
		}
		return k.unknown(plainKey(key))
	}
	if old := k.sameType(mismatch.Want, key); len(old) > 0 {
		return k.changed(key, old)
	}
	if k.knownWithoutPort(remote, key) {
		return nil
	}
	return k.unknown(plainKey(key))
}

// same accepts no other key than the first in the later key exchanges of one
// connection; nobody is asked then.
func (k *hostKeys) same(key ssh.PublicKey) error {
	if !sameKey(k.shown, key) {
		return k.refuse(fmt.Sprintf("%s showed another host key within one connection", k.display()), "")
	}
	return nil
}

// plainKey is the key inside a certificate: one that no known authority signed
// counts for no more than that.
func plainKey(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key
	}
	return key
}

// sameType are the known keys that key contradicts: of its own type, and no
// authorities. A key of another type is only new, as with OpenSSH.
func (k *hostKeys) sameType(known []xknownhosts.KnownKey, key ssh.PublicKey) []xknownhosts.KnownKey {
	return slices.DeleteFunc(slices.Clone(known), func(old xknownhosts.KnownKey) bool {
		return old.Key.Type() != key.Type() || k.db.isAuthority(old)
	})
}

func (k *hostKeys) knownAuthority() bool {
	return slices.ContainsFunc(k.db.HostKeys(k.name()), func(key knownhosts.PublicKey) bool { return key.Cert })
}

// knownWithoutPort accepts a key known for the host's default port.
func (k *hostKeys) knownWithoutPort(remote net.Addr, key ssh.PublicKey) bool {
	if k.s.HostKeyAlias != "" || k.s.Port == 22 {
		return false
	}
	return k.db.HostKeyCallback()(net.JoinHostPort(strings.ToLower(k.s.Hostname), "22"), remote, key) == nil
}

// unknown decides about a key seen for the first time.
func (k *hostKeys) unknown(key ssh.PublicKey) error {
	shown := ssh.FingerprintSHA256(key)
	switch k.s.StrictHostKeyChecking {
	case "yes":
		return k.refuse(fmt.Sprintf("the host key of %s is unknown (%s), and StrictHostKeyChecking is on", k.display(), shown),
			"check the fingerprint, then connect once with `ssh "+k.s.Alias+"`")
	case "no", "accept-new":
		return k.accept(key)
	}
	answer, err := k.try.ask(k.ctx, api.Prompt{
		Kind: api.PromptHostKey, Echo: true, Fingerprint: shown,
		Text: fmt.Sprintf("The authenticity of %s can't be established. Its %s key fingerprint is %s. Trust it?", k.display(), keyType(key), shown),
	})
	if err != nil {
		if errors.Is(err, ErrNobody) {
			return &api.Error{
				Code:    api.CodeNeedsPerson,
				Message: fmt.Sprintf("the host key of %s is unknown (%s), and nobody was there to accept it", k.display(), shown),
				Hint:    "run `tunctl login " + k.try.host.name + "`", Err: classNeedsPerson.of(err),
			}
		}
		return err
	}
	if isYes(answer) || answer == shown {
		return k.accept(key)
	}
	return k.refuse(fmt.Sprintf("you did not trust the host key of %s (%s)", k.display(), shown), "")
}

// accept appends the key to the first known_hosts file, as OpenSSH does.
func (k *hostKeys) accept(key ssh.PublicKey) error {
	k.try.log.Info("new host key accepted", "fingerprint", ssh.FingerprintSHA256(key))
	if len(k.s.UserKnownHosts) == 0 {
		return nil
	}
	name := xknownhosts.Normalize(k.name())
	if k.s.HashKnownHosts {
		name = xknownhosts.HashHostname(name)
	}
	line := name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
	if err := appendLine(k.s.UserKnownHosts[0], line); err != nil {
		k.try.warn(fmt.Sprintf("the host key could not be remembered: %v", err))
	}
	return nil
}

func (k *hostKeys) changed(key ssh.PublicKey, old []xknownhosts.KnownKey) error {
	where := make([]string, len(old))
	for i, o := range old {
		where[i] = fmt.Sprintf("%s (%s:%d)", ssh.FingerprintSHA256(o.Key), k.db.origin(o.Filename), o.Line)
	}
	message := fmt.Sprintf("the host key of %s has changed: it shows %s, known is %s", k.display(), ssh.FingerprintSHA256(key), strings.Join(where, ", "))
	return k.refuse(message, fmt.Sprintf("somebody may be listening in. If the site announced a new key, remove the old one with `ssh-keygen -R %q -f %q`",
		xknownhosts.Normalize(k.name()), k.db.origin(old[0].Filename)))
}

func (k *hostKeys) revoked(key ssh.PublicKey, r *xknownhosts.RevokedError) error {
	return k.refuse(fmt.Sprintf("the host key of %s (%s) is marked as revoked at %s:%d", k.display(), ssh.FingerprintSHA256(key), k.db.origin(r.Revoked.Filename), r.Revoked.Line),
		"do not log in; ask the site's support")
}

func (k *hostKeys) refuse(message, hint string) error {
	return &api.Error{Code: api.CodeHostKey, Message: message, Hint: hint, Err: classPermanent.of(nil)}
}

func (k *hostKeys) display() string { return xknownhosts.Normalize(k.name()) }

// keyType is a key's type as people call it: ED25519, ECDSA, RSA.
func keyType(key ssh.PublicKey) string {
	t := strings.TrimPrefix(strings.TrimPrefix(key.Type(), "sk-"), "ssh-")
	t, _, _ = strings.Cut(t, "@")
	t, _, _ = strings.Cut(t, "-")
	return strings.ToUpper(t)
}

// appendLine adds a line to a file that it makes if need be, after a last line
// that somebody left unfinished.
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
