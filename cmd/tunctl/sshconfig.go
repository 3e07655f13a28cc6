package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
	"tunctl/internal/gateway"
	"tunctl/internal/home"
)

func sshConfigCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:  "ssh-config",
		Usage: "let ssh, scp, rsync, git and VS Code use the login, as HOST.tun",
		Description: "After `tunctl ssh-config install`, HOST.tun is a host for every program that uses ssh, and\n" +
			"needs no login of its own: `scp data.h5 narval.tun:`, `rsync -e ssh`, `git clone`, VS Code's\n" +
			"Remote-SSH. NODE.HOST.tun is a compute node behind it, where the site lets you in.\n" +
			"Your ssh config gets one Include line at its top; a copy of it from before is kept beside it.",
		Subcommands: []*cli.Command{
			{
				Name: "install", Usage: "add the Include line, and write what it includes",
				Action: func(c *cli.Context) error { return sshConfigInstall(c, t) },
			},
			{
				Name: "remove", Usage: "take the Include line out again",
				Action: func(c *cli.Context) error { return sshConfigRemove(c, t) },
			},
		},
	}
}

func sshConfigInstall(c *cli.Context, t *terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	file, err := personalSSHConfig(p)
	if err != nil {
		return err
	}
	if err := refusePractice(p, file); err != nil {
		return err
	}
	if _, err := gateway.HostKey(p.Gateway()); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hosts := []string{}
	if cfg, err := configs.Load(p.Config); err == nil {
		hosts = cfg.HostNames()
	}
	if err := atomicfile.Write(includedFile(p), []byte(aliases(p, self, hosts)), 0o600); err != nil {
		return err
	}
	backup, err := editFile(file, includeNote, func(text string) string { return includeLine(p) + without(text, p) })
	if err != nil {
		return err
	}
	if backup != "" {
		t.say("%s as it was is in %s", file, backup)
	}
	for _, h := range hosts {
		t.say("%s ssh %s%s", t.paint(green, "✓"), h, suffix)
	}
	t.say("any host of your ssh config works so: ssh HOST%s; its compute nodes as NODE.HOST%s", suffix, suffix)
	return nil
}

func sshConfigRemove(c *cli.Context, t *terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	file, err := personalSSHConfig(p)
	if err != nil {
		return err
	}
	if _, err := editFile(file, includeNote, func(text string) string { return without(text, p) }); err != nil {
		return err
	}
	if err := os.Remove(includedFile(p)); err != nil && !os.IsNotExist(err) {
		return err
	}
	t.say("HOST%s is no host for ssh any more; tunctl itself goes on as before", suffix)
	return nil
}

// refusePractice keeps the practice cluster out of the person's own ssh config: its
// home goes away, and the line that leads there would stay.
func refusePractice(p home.Paths, file string) error {
	own, err := ownSSHConfig()
	if err != nil || file != own || !practiceHome(p) {
		return err
	}
	return &api.Error{
		Code: api.CodeUsage, Message: fmt.Sprintf("this is the practice cluster, and %s is your own: it is not touched", own),
		Hint: "TUNCTL_SSH_CONFIG=FILE before the command writes to another file, for `ssh -F FILE`",
	}
}

func practiceHome(p home.Paths) bool {
	dir := filepath.Base(filepath.Dir(filepath.Dir(p.State))) // DIR/home/state
	return p.Moved && (os.Getenv("TUNCTL_PRACTICE") != "" || strings.HasPrefix(dir, demoFolder))
}

func ownSSHConfig() (string, error) {
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".ssh", "config"), err
}

// personalSSHConfig is the file that the person's ssh reads.
func personalSSHConfig(p home.Paths) (string, error) {
	if f := os.Getenv("TUNCTL_SSH_CONFIG"); f != "" {
		return f, nil
	}
	cfg, err := configs.Load(p.Config)
	if err != nil || cfg.SSHConfig == "" {
		return ownSSHConfig()
	}
	return cfg.SSHConfig, nil
}

func includedFile(p home.Paths) string { return filepath.Join(p.Gateway(), "ssh_config") }

const includeNote = "# tunctl: HOST.tun uses the login that tunctl has (`tunctl ssh-config remove` takes this out)"

// includeLine goes to the top: after a Host line it would belong to that host.
func includeLine(p home.Paths) string {
	return fmt.Sprintf("%s\nInclude %s\n\n", includeNote, quoted(includedFile(p)))
}

// without is an ssh config without our line.
func without(text string, p home.Paths) string { return strings.ReplaceAll(text, includeLine(p), "") }

// aliases are the hosts that ssh is told of. The pattern serves them all; the names
// before it are for completion and for VS Code's list. The cipher is the one that our
// side of the private stream is quickest at.
func aliases(p home.Paths, self string, hosts []string) string {
	names := []string{}
	for _, h := range hosts {
		names = append(names, h+suffix)
	}
	names = append(names, "*"+suffix)
	return fmt.Sprintf(`# Written by tunctl ssh-config install; changes are lost at the next one.
Host %s
  ProxyCommand %s connect --gateway %s
  HostKeyAlias %s
  UserKnownHostsFile %s
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  UpdateHostKeys no
  CheckHostIP no
  ControlMaster no
  ControlPath none
  ForwardAgent no
  ForwardX11 no
  Compression no
  Ciphers aes128-gcm@openssh.com,chacha20-poly1305@openssh.com
  ConnectTimeout none
`, strings.Join(names, " "), quoted(self), quotedName(), gateway.Alias, quoted(gateway.KnownHosts(p.Gateway())))
}

// quoted is a path as ssh_config(5) wants it where it may hold a space; a percent sign
// would begin a token.
func quoted(path string) string {
	return `"` + strings.ReplaceAll(filepath.ToSlash(path), "%", "%%") + `"`
}

// quotedName is the name that ssh was called with, quoted for the shell that runs the
// ProxyCommand.
func quotedName() string {
	if runtime.GOOS == "windows" {
		return `"%n"`
	}
	return "'%n'"
}
