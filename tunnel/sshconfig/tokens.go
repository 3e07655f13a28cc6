package sshconfig

import (
	"crypto/sha1" //nolint:gosec // %C is a SHA-1 in OpenSSH
	"encoding/hex"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// tokens are the percent sequences of ssh_config(5) for one destination. `ssh -G` does
// not expand them in IdentityFile, CertificateFile and ProxyCommand.
type tokens struct {
	home   string
	values map[byte]string
}

func newTokens(s *Settings) tokens {
	home, _ := os.UserHomeDir()
	hostname, _ := os.Hostname()
	short, _, _ := strings.Cut(hostname, ".")
	local, uid := localUser()
	port := strconv.Itoa(s.Port)
	jump := strings.Join(s.ProxyJump, ",")
	keyName := s.HostKeyAlias
	if keyName == "" {
		keyName = s.Alias
	}
	//nolint:gosec // a name, not a secret
	sum := sha1.Sum([]byte(hostname + s.Hostname + port + s.User + jump))
	return tokens{home, map[byte]string{
		'%': "%", 'd': home, 'h': s.Hostname, 'i': uid, 'j': jump, 'k': keyName, 'L': short, 'l': hostname,
		'n': s.Alias, 'p': port, 'r': s.User, 'u': local, 'C': hex.EncodeToString(sum[:]),
	}}
}

// expand replaces the percent sequences. Unknown ones stay.
func (t tokens) expand(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+1 < len(text) {
			if v, ok := t.values[text[i+1]]; ok {
				b.WriteString(v)
				i++
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// path expands tokens, ${VARIABLES} and a leading tilde.
func (t tokens) path(p string) string {
	if p == "" || p == "none" {
		return p
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		p = filepath.Join(t.home, rest)
	}
	if strings.Contains(p, "${") {
		p = os.ExpandEnv(p)
	}
	return t.expand(p)
}

func (t tokens) paths(list []string) []string {
	var out []string
	for _, p := range list {
		if p = t.path(p); p != "" && p != "none" {
			out = append(out, p)
		}
	}
	return out
}

func localUser() (name, uid string) {
	u, err := user.Current()
	if err != nil {
		return os.Getenv("USER"), ""
	}
	// DOMAIN\name on Windows
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:], u.Uid
}
