package sshconfig

import (
	"cmp"
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
	home string
	*strings.Replacer
}

func newTokens(s *Settings) tokens {
	home, _ := os.UserHomeDir()
	hostname, _ := os.Hostname()
	short, _, _ := strings.Cut(hostname, ".")
	local, uid := localUser()
	port := strconv.Itoa(s.Port)
	jump := strings.Join(s.ProxyJump, ",")
	keyName := cmp.Or(s.HostKeyAlias, s.Alias)
	//nolint:gosec // a name, not a secret
	sum := sha1.Sum([]byte(hostname + s.Hostname + port + s.User + jump))
	return tokens{home, strings.NewReplacer(
		"%%", "%", "%d", home, "%h", s.Hostname, "%i", uid, "%j", jump, "%k", keyName, "%L", short, "%l", hostname,
		"%n", s.Alias, "%p", port, "%r", s.User, "%u", local, "%C", hex.EncodeToString(sum[:]),
	)} // unknown ones stay
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
	return t.Replace(p)
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
