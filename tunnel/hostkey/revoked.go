package hostkey

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

const (
	// krlMagic begins a key revocation list (OpenSSH's PROTOCOL.krl).
	krlMagic = "SSHKRL\n\x00"
	// keygenTimeout bounds one run of ssh-keygen, which reads two files.
	keygenTimeout = 10 * time.Second
)

// isRevoked reports whether a RevokedHostKeys file has a key, its certificate, or the
// authority that signed it: public keys, one a line, or a key revocation list. If any part
// of the file cannot be read, that is an error: it may be the revocation that matters.
func isRevoked(ctx context.Context, path string, key ssh.PublicKey) (revoked bool, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if bytes.HasPrefix(content, []byte(krlMagic)) {
		return isInKRL(ctx, path, key)
	}
	for i, line := range strings.Split(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		blob, err := revokedBlob(fields)
		if err != nil {
			return false, fmt.Errorf("line %d: %w", i+1, err)
		}
		for _, part := range parts(key) {
			revoked = revoked || blob == string(part.Marshal())
		}
	}
	return revoked, nil
}

// isInKRL has ssh-keygen look a key up in a key revocation list.
func isInKRL(ctx context.Context, path string, key ssh.PublicKey) (bool, error) {
	file, err := WriteTemp(ssh.MarshalAuthorizedKey(key))
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(file) }()
	ctx, cancel := context.WithTimeout(ctx, keygenTimeout)
	defer cancel()
	cmd, err := sshconfig.Keygen(ctx, "-Q", "-f", path, file)
	if err != nil {
		return false, errors.New("only ssh-keygen reads a key revocation list, and it was not found: install OpenSSH's client")
	}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	answer := strings.TrimSpace(string(out))
	if strings.HasSuffix(answer, ": REVOKED") {
		return true, nil
	}
	if err == nil && strings.HasSuffix(answer, ": ok") {
		return false, nil
	}
	return false, fmt.Errorf("ssh-keygen: %w: %s", err, api.NewRemoteText(said.String()))
}

// revokedBlob is the plain key of a line. A key type that the library does not know is
// kept as it is: no server can show it to us.
func revokedBlob(fields []string) (string, error) {
	if len(fields) < 2 {
		return "", errors.New("the line lacks a key type or key")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return "", errors.New("the key is not base64")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		var named struct {
			Type string
			Rest []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(blob, &named) != nil || named.Type != fields[0] {
			return "", fmt.Errorf("the key cannot be read: %w", err)
		}
		return string(blob), nil
	}
	return string(Plain(key).Marshal()), nil
}
