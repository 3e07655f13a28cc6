package main

import (
	"context"
	_ "embed" // the included file
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
	"tunctl/internal/gateway"
	"tunctl/internal/home"
	"tunctl/internal/lists"
	"tunctl/internal/posixsh"
	"tunctl/internal/term"
)

func sshConfigCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "ssh-config",
		Usage: "let ssh, scp, rsync, git and VS Code share the connection",
		Subcommands: []*cli.Command{
			{
				Name: "install", Usage: "add the Include line, and write what it includes",
				Action: invoke(t, sshConfigInstall),
			},
			{
				Name: "remove", Aliases: []string{"uninstall"}, Usage: "remove the Include line and the included file",
				Action: invoke(t, sshConfigRemove),
			},
		},
	}
}

func sshConfigInstall(_ context.Context, inv *invocation) error {
	p := inv.paths
	file, own, err := personalSSHConfig(p)
	if err != nil {
		return err
	}
	if own && isPractice(p) { // which is removed, and the Include line would stay
		return api.Errorf(api.CodeUsage, "the practice cluster does not change your own %s", file).
			WithHint("set TUNCTL_SSH_CONFIG=FILE to write to another file, for `ssh -F FILE`")
	}
	if _, err := gateway.HostKey(p.Gateway()); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := readConfig(inv.paths)
	hosts, sessions := cfg.HostNames(), jobSessions(cfg)
	names := slices.Concat(hosts, lists.Map(sessions, func(s configs.Session) string { return s.Name }))
	if err := atomicfile.Write(includedFile(p), []byte(includedText(p, self, names)), 0o600); err != nil {
		return err
	}
	backup, err := editFile(file, includeNote, func(text string) string { return includeLine(p) + withoutInclude(text, p) })
	if err != nil {
		return err
	}
	done, ssh := inv.Paint(term.Green, "✓"), "ssh"
	if !own {
		ssh += " -F " + posixsh.Quote(file)
	}
	inv.Say("%s `%s HOST%s` shares the connection of tunctl%s", done, ssh, aliasSuffix, examples(hosts))
	inv.Say("%s `%s SESSION%s` is inside the job of a session, while it runs%s", done, ssh, aliasSuffix, examples(names[len(hosts):]))
	inv.Say("  by an Include line at the top of %s", file)
	if backup != "" {
		inv.Say("  the backup of that file is %s", backup)
	}
	return nil
}

// examples are the first of some names, as ssh takes them.
func examples(names []string) string {
	if len(names) == 0 {
		return ""
	}
	shown := names[:min(3, len(names))]
	text := ": " + strings.Join(shown, aliasSuffix+", ") + aliasSuffix
	if len(shown) < len(names) {
		text += ", …"
	}
	return text
}

func sshConfigRemove(_ context.Context, inv *invocation) error {
	p := inv.paths
	file, _, err := personalSSHConfig(p)
	if err != nil {
		return err
	}
	text, _ := os.ReadFile(file) // editFile says why not
	if _, missing := os.Stat(includedFile(p)); missing != nil && withoutInclude(string(text), p) == string(text) {
		inv.Say("there is nothing to remove: ssh does not know HOST%s", aliasSuffix)
		return nil
	}
	if _, err := editFile(file, includeNote, func(text string) string { return withoutInclude(text, p) }); err != nil {
		return err
	}
	if err := os.Remove(includedFile(p)); err != nil && !os.IsNotExist(err) {
		return err
	}
	inv.Say("ssh no longer knows HOST%s; tunctl itself works as before", aliasSuffix)
	return nil
}

// personalSSHConfig is the file that the user's ssh reads, and whether it does so without -F.
func personalSSHConfig(p home.Paths) (file string, own bool, err error) {
	dir, err := os.UserHomeDir()
	usual := filepath.Join(dir, ".ssh", "config")
	if file = sshConfigFile(readConfig(p)); file != "" {
		return file, file == usual, nil
	}
	return usual, true, err
}

func includedFile(p home.Paths) string { return filepath.Join(p.Gateway(), "ssh_config") }

// includeNote must not change: the line is found by it.
const includeNote = "# tunctl: HOST.tun uses the login that tunctl has (`tunctl ssh-config remove` takes this out)"

// includeLine goes to the top: after a Host line it would belong to that host.
func includeLine(p home.Paths) string {
	return fmt.Sprintf("%s\nInclude %s\n\n", includeNote, quotePath(includedFile(p)))
}

// withoutInclude is an ssh config without our line.
func withoutInclude(text string, p home.Paths) string {
	return strings.ReplaceAll(text, includeLine(p), "")
}

//go:embed included.ssh_config
var includedConfig string

// includedText is the file that the user's ssh config includes. The pattern covers all hosts
// and sessions; the known names before it are for completion and for VS Code's list. The first
// cipher is the fastest one for our side of the private stream.
func includedText(p home.Paths, self string, known []string) string {
	names := lists.Map(slices.Concat(known, []string{"*"}), func(name string) string { return name + aliasSuffix })
	return fmt.Sprintf(includedConfig, strings.Join(names, " "), quotePath(self), quotedName, gateway.Alias, quotePath(gateway.KnownHosts(p.Gateway())))
}

// quotePath is a path for ssh_config(5), which may contain spaces; a percent sign would begin a
// token.
func quotePath(path string) string {
	return `"` + strings.ReplaceAll(filepath.ToSlash(path), "%", "%%") + `"`
}

// backupSuffix marks the copy of the user's file before the first change.
const backupSuffix = ".before-tunctl"

// editFile changes the user's text file, and keeps a copy of the original. backup is the name
// of that copy; "" if nothing changed, there was no file, or it contains mark: tunctl has
// changed it before. A link, as in a folder of dotfiles, stays a link; any other file that
// becomes empty is removed.
func editFile(path, mark string, change func(string) string) (backup string, err error) {
	file, mode, err := atomicfile.Target(path)
	if err != nil {
		return "", err
	}
	before, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err != nil {
		return "", err
	}
	after := change(string(before))
	_, noLink := os.Readlink(path)
	switch {
	case after == string(before):
		return "", nil
	case !mode.IsRegular(): // root could replace /dev/null, which stands for no ssh config
		return "", fmt.Errorf("%s is not a regular file", path)
	case after == "" && noLink != nil:
		return "", os.Remove(file)
	}
	if len(before) > 0 && !strings.Contains(string(before), mark) {
		backup = file + backupSuffix
		if err := atomicfile.Write(backup, before, mode.Perm()); err != nil {
			return "", err
		}
	}
	return backup, atomicfile.Write(file, []byte(after), mode.Perm())
}
