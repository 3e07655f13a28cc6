package tunnel

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
)

// readRevokedKeys reads a RevokedHostKeys file: public keys, one a line, or a KRL. If any
// part of it cannot be read, that is an error: it may be the revocation that matters.
func readRevokedKeys(path string) (*krl, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(content, []byte(krlMagic)) {
		return parseKRL(content)
	}
	list := &krl{keys: map[string]bool{}}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		blob, err := revokedBlob(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		list.keys[blob] = true
	}
	return list, nil
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
	return string(plainKey(key).Marshal()), nil
}
