package configs

import "strings"

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
}

// noTransfer says that files are copied by the login node, whatever the site has.
const noTransfer = "none"

func hostFields() []field[Host] {
	return []field[Host]{
		{"ssh", `"alice@login.example.org"`, func(in *input, h *Host) {
			if text, ok := in.destination(); ok {
				h.SSH = text
			}
		}},
		{"site", `"narval"`, setText(func(h *Host) *string { return &h.Site })},
		{"scheduler", `"slurm"`, setWord(func(h *Host) *string { return &h.Scheduler }, Schedulers()...)},
		{"transport", `"native"`, setWord(func(h *Host) *string { return &h.Transport }, "native", "openssh")},
		{"before_login", `"step ssh login"`, setText(func(h *Host) *string { return &h.BeforeLogin })},
		{"transfer", `"alice@dtn.example.org"`, func(in *input, h *Host) { h.Transfer, _ = in.destination() }},
		{"private", `"/work/z19/alice/.tunctl"`, func(in *input, h *Host) { h.Private, _ = in.privateFolder() }},
	}
}

// removedKeys are keys of earlier versions, with what to do instead.
var removedKeys = map[string]string{
	"reuse_master": "delete this line: tunctl logs in once and keeps the connection, and your own ssh, scp and rsync use it as `ssh HOST.tun`; " +
		"if only the ssh program can log in, set transport = \"openssh\"",
}

// destination reads what ssh accepts as a host.
func (in *input) destination() (string, bool) {
	text, ok := in.text()
	if ok && !isDestination(text) {
		in.addError(in.entry.value.at, "write: "+in.entry.key+" = "+in.example, "%q is not a valid ssh host", text)
		return "", false
	}
	return text, ok
}

// isDestination reports whether text is safe as a host for ssh: no option, and one word
// for the shell of a ProxyCommand.
func isDestination(text string) bool {
	if strings.ContainsAny(text, " \t'\"`$\\;&<>|(){}") {
		return false
	}
	for part := range strings.SplitSeq(text, "@") {
		if part == "" || part[0] == '-' {
			return false
		}
	}
	return true
}
