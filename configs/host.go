package configs

import "strings"

// Host is a [host.NAME] table: how a login node is reached, where that is not in
// ~/.ssh/config already. An empty field is found out.
type Host struct {
	Name        string
	SSH         string // user@host or an alias; by default the name
	Site        string // a preset's name
	Scheduler   string // "slurm", "pbs" or "none"
	Transport   string // "native" or "openssh"
	ReuseMaster bool   // ride the person's own ControlMaster
	BeforeLogin string // a command to run before each login
	Transfer    string // where its files are copied through, or NoTransfer; by default the site's
}

// NoTransfer says that copies go through the login node, whatever the site has.
const NoTransfer = "none"

func hostFields() []field[Host] {
	return []field[Host]{
		{"ssh", `"alice@login.example.org"`, func(in *input, h *Host) {
			if text, ok := in.destination(); ok {
				h.SSH = text
			}
		}},
		{"site", `"narval"`, setText(func(h *Host) *string { return &h.Site })},
		{"scheduler", `"slurm"`, setWord(func(h *Host) *string { return &h.Scheduler }, "slurm", "pbs", "none")},
		{"transport", `"native"`, setWord(func(h *Host) *string { return &h.Transport }, "native", "openssh")},
		{"reuse_master", `true`, setFlag(func(h *Host) *bool { return &h.ReuseMaster })},
		{"before_login", `"step ssh login"`, setText(func(h *Host) *string { return &h.BeforeLogin })},
		{"transfer", `"alice@dtn.example.org"`, func(in *input, h *Host) { h.Transfer, _ = in.destination() }},
	}
}

// destination reads what ssh would take as a host.
func (in *input) destination() (string, bool) {
	text, ok := in.text()
	if ok && !isDestination(text) {
		in.complain(in.entry.value.at, "write: "+in.entry.key+" = "+in.example, "%q is not a valid ssh host", text)
		return "", false
	}
	return text, ok
}

// isDestination reports whether text may be handed to ssh as a host: never as an
// option, and nothing that the shell of a ProxyCommand would take for more than a
// word.
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
