//go:build unix

package main

// defaultEditor opens the config where neither VISUAL nor EDITOR is set.
const defaultEditor = "vi"

// quotedName is the host name as typed, quoted for the shell that runs the ProxyCommand.
const quotedName = "'%n'"

// isDrive reports whether the word before a colon is a drive and no host.
func isDrive(string) bool { return false }

// demoUnsupported says why the practice cluster cannot run here: it can.
func demoUnsupported() error { return nil }
