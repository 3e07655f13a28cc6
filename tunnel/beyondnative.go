package tunnel

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// needsSSH decides whether the ssh program logs in: because the config says so, or
// because the settings, the key files or an earlier look at the server tell that we
// cannot. No login is tried to find out: it would be one more that failed.
func (t *attempt) needsSSH(ctx context.Context) bool {
	if t.settings.Transport != "" {
		return t.settings.Transport == api.TransportOpenSSH
	}
	why := t.host.onlySSH()
	if why == "" && t.settings.PKCS11Provider != "" {
		why = "PKCS11Provider is set"
	}
	if why == "" {
		why = t.securityKey(ctx)
	}
	if why == "" {
		return false
	}
	if hint, err := t.sshAtHand(); err != nil {
		t.warn(why + ", which needs the ssh program: " + hint + ", or load the key into an ssh-agent")
		return false
	}
	t.log.Info("the ssh program logs in", "why", why)
	t.onlySSH = why
	return true
}

// sshAtHand looks for an ssh program whose connection we can use, and says what to do
// where there is none.
func (t *attempt) sshAtHand() (hint string, err error) {
	if runtime.GOOS == "windows" {
		return "run tunctl in WSL: the ssh program of Windows does not share its connections", errors.ErrUnsupported
	}
	_, err = sshconfig.FindSSH(t.pool.o.Env())
	return "install OpenSSH's client", err
}

// securityKey names a key of the person's on a FIDO token that no ssh-agent holds; ""
// if there is none. A default key file stands back where another key is at hand.
func (t *attempt) securityKey(ctx context.Context) string {
	s := &t.settings
	if !s.PubkeyAuthentication {
		return ""
	}
	var path string
	others := 0
	k := newKeychain(ctx, t)
	defer k.close()
	for _, file := range s.IdentityFiles {
		text, _, err := readKeyFile(file)
		if err != nil {
			continue
		}
		public := tokenKey(text)
		held := public != nil && slices.ContainsFunc(k.agentKeys(), func(h ssh.Signer) bool { return sameKey(h.PublicKey(), public) })
		switch {
		case public == nil || held:
			others++
		case path == "":
			path = file
		}
	}
	if path == "" || !s.OwnIdentities && (others > 0 || !s.IdentitiesOnly && len(k.agentKeys()) > 0) {
		return ""
	}
	return fmt.Sprintf("the key %s is on a security token and not in an ssh-agent", path)
}

// tokenKey is the public half of a private key on a FIDO token, nil for any other. It
// stands in the clear in OpenSSH's format (PROTOCOL.key).
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

// lacks says which of the methods that a server accepts only the ssh program has; ""
// if there is none.
func (t *attempt) lacks(allowed []string) string {
	switch {
	case slices.Contains(allowed, "gssapi-with-mic") || slices.Contains(allowed, "gssapi-keyex"):
		return "the server accepts Kerberos logins, which only the ssh program supports"
	case t.settings.HostbasedAuthentication && slices.Contains(allowed, "hostbased"):
		return "the server accepts host-based logins, which only the ssh program supports"
	}
	return ""
}

// beyondUs is called when no method of ours is left and none has failed. It reports
// whether the ssh program is to log in; its error is why that cannot be.
func (t *attempt) beyondUs(allowed []string) (bool, error) {
	why := t.lacks(allowed)
	if why == "" {
		return false, nil
	}
	if t.settings.Transport == api.TransportNative {
		return false, t.deny(why+"; remove transport = \"native\" for this host", nil)
	}
	if hint, err := t.sshAtHand(); err != nil {
		t.denied = &api.Error{
			Code: api.CodeConfig, Err: classPermanent.of(err), Hint: hint,
			Message: fmt.Sprintf("%s needs the ssh program: %s", t.host.label(), why),
		}
		return false, t.denied
	}
	t.onlySSH = why
	t.host.setOnlySSH(why)
	return true, nil
}

// onlySSH is what a server's methods have told us, so that we need not ask again.
func (h *Host) onlySSH() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beyondNative
}

func (h *Host) setOnlySSH(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beyondNative = why
}
