package userkeys

import (
	"context"
	"encoding/pem"
	"strings"

	"golang.org/x/crypto/ssh"
)

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
