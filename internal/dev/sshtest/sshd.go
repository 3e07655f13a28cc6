package sshtest

import "path/filepath"

// SSHD98OrNewer reports whether the machine's sshd is OpenSSH 9.8 or newer: its sessions are
// a program of their own, its PAM service is a setting, and an address that fails several
// times is refused for a while, as a test's would be, unless it is told not to.
func SSHD98OrNewer() bool {
	found, _ := filepath.Glob("/usr/lib*/openssh/sshd-session")
	return len(found) > 0
}
