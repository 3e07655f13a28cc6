//go:build unix

package main

// defaultEditor opens the config where neither VISUAL nor EDITOR is set.
const defaultEditor = "vi"

// quotedName is the host name as typed, quoted for the shell that runs the ProxyCommand, and once
// more for paramiko, which expands only %h: ssh has that in lower case.
const quotedName = "'%n' '%h'"

// isDrive reports whether the word before a colon is a drive and no host.
func isDrive(string) bool { return false }

// What a newcomer can do, and where no session is needed, in sentences of help and hints.
const (
	firstSteps = "New here? ''tunctl demo'' needs no account; then ''tunctl init'', ''tunctl up''."
	trialHint  = "`tunctl demo` needs none"
)

// demoUnsupported says why the practice cluster cannot run here: it can.
func demoUnsupported() error { return nil }
