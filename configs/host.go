package configs

import (
	"slices"
	"strings"
)

// Host is a [host.NAME] table: how to reach a login node, unless ~/.ssh/config has it.
// Empty fields are detected.
type Host struct {
	Name        string
	SSH         string // user@host or an alias; by default the name
	Site        string // a preset's name
	Scheduler   string // of Schedulers
	Transport   string // "native" or "openssh"
	BeforeLogin string // a command to run before each login
	Transfer    string // the host for copying files, or "none"; by default the site's
	Private     string // the folder for tunctl's files there; by default the site's; see Site.PrivateFolder
	Resume      *bool  // see Site.Resumes; nil: as the site says
}

// aliasHost is a host that the config says nothing about.
func aliasHost(name string) Host { return Host{Name: name, SSH: name} }

// noTransfer says that files are copied by the login node, whatever the site has.
const noTransfer = "none"

func (h *Host) fields() []field {
	return []field{
		{"ssh", `"alice@login.example.org"`, text(&h.SSH, validHost)},
		{"site", `"narval"`, text(&h.Site)},
		{"scheduler", `"slurm"`, word(&h.Scheduler, Schedulers()...)},
		{"transport", `"native"`, word(&h.Transport, "native", "openssh")},
		{"before_login", `"step ssh login"`, text(&h.BeforeLogin)},
		{"transfer", `"alice@dtn.example.org"`, text(&h.Transfer, validHost)},
		{"private", `"/work/z19/alice/.tunctl"`, text(&h.Private, validPrivate)},
		{"resume", `true`, choice(&h.Resume)},
	}
}

// validHost is what ssh accepts as a host.
var validHost = rule{isDestination, "is not a valid ssh host"}

// isDestination reports whether text is safe as a host for ssh: no option, and one word
// for the shell of a ProxyCommand.
func isDestination(text string) bool {
	isOption := func(part string) bool { return part == "" || part[0] == '-' }
	return !strings.ContainsAny(text, " \t'\"`$\\;&<>|(){}") && !slices.ContainsFunc(strings.Split(text, "@"), isOption)
}
