package main

import "tunctl/internal/api"

// defaultEditor opens the config where neither VISUAL nor EDITOR is set.
const defaultEditor = "notepad"

// quotedName is the host name as typed, quoted for the shell that runs the ProxyCommand, and once
// more for paramiko, which expands only %h: ssh has that in lower case.
const quotedName = `"%n" "%h"`

// isDrive reports whether the word before a colon is a drive and no host.
func isDrive(word string) bool { return len(word) == 1 }

// What a newcomer can do, and where no session is needed, in sentences of help and hints.
const (
	firstSteps = "New here? ''tunctl init'', then ''tunctl up''; ''tunctl demo'' runs in WSL."
	trialHint  = "`tunctl demo`, which needs none, runs in WSL"
)

// demoUnsupported says why the practice cluster cannot run here: its jobs are shell scripts.
func demoUnsupported() error {
	return api.Errorf(api.CodeUsage, "the practice cluster does not run on Windows itself: it needs WSL, the Windows Subsystem for Linux").
		WithHint("`wsl --install` installs it; run the Linux version of tunctl in it: `tunctl demo`. To set up a real cluster here: `tunctl init`")
}
