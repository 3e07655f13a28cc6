package real

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// Secrets are all that must never be seen outside the lab: passwords, the seed of the
// one-time codes, and a line of every private key.
func (l *Lab) Secrets() []string {
	l.t.Helper()
	secrets := []string{Password, Passphrase, codeSecret, hex.EncodeToString([]byte(codeSecret))}
	files, err := filepath.Glob(filepath.Join(l.Dir(), "keys", "*"))
	l.must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		l.must(err)
		// The first line of each says what it is, and the second is the same for keys of one kind.
		if lines := strings.Split(string(text), "\n"); strings.HasPrefix(lines[0], "-----BEGIN") && len(lines) > 3 {
			secrets = append(secrets, lines[2])
		}
	}
	return secrets
}
