package configs

import (
	"cmp"
	"regexp"
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

// privateName is the name of the folder for tunctl's files on a host.
const privateName = "/.tunctl"

// validPrivate is a path that is safe in double quotes: from the root, the home
// folder or a variable on. {user} and {group} are the user's names on the host.
var validPrivate = rule{
	func(text string) bool { return privatePath.MatchString(text) && !strings.Contains(text, "/../") },
	"is not a folder for tunctl's files: it starts with /, ~/ or a variable, may contain {user} and {group}, and ends in " + privateName,
}

var privatePath = regexp.MustCompile(`^(?:~|\$[A-Za-z_][A-Za-z0-9_]*)?(?:/(?:[A-Za-z0-9_.-]|\{user\}|\{group\})+)*` + regexp.QuoteMeta(privateName) + `$`)

// PrivateFolder is the folder for tunctl's files on a host of the site, as shell text for
// double quotes. A variable that is not set is an error there, not the root folder.
func (s *Site) PrivateFolder(h Host) string {
	path := cmp.Or(h.Private, s.Private, "~"+privateName)
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		path = "$HOME" + rest
	} else if rest, ok := strings.CutPrefix(path, "$"); ok {
		name, rest, _ := strings.Cut(rest, "/")
		path = "${" + name + ":?}/" + rest
	}
	return strings.NewReplacer("{user}", "$(id -un)", "{group}", "$(id -gn)").Replace(path)
}
