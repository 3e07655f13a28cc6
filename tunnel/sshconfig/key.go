package sshconfig

import (
	"strings"

	"golang.org/x/crypto/ssh"
)

// SameKey reports whether two keys are the same; nil is none.
func SameKey(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && string(a.Marshal()) == string(b.Marshal())
}

// DescribeKey is a key for display.
func DescribeKey(key ssh.PublicKey) string { return KeyType(key) + " " + ssh.FingerprintSHA256(key) }

// KeyType is a key's type for display: ED25519, ECDSA, RSA.
func KeyType(key ssh.PublicKey) string {
	t := strings.TrimPrefix(strings.TrimPrefix(key.Type(), "sk-"), "ssh-")
	t, _, _ = strings.Cut(t, "@")
	t, _, _ = strings.Cut(t, "-")
	return strings.ToUpper(t)
}
