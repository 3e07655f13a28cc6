package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/agent/settings"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/lists"
	"tunctl/internal/term"
	"tunctl/internal/words"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

func configCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "show, check and edit the config file",
		Subcommands: []*cli.Command{
			{Name: "check", Usage: "check the config file", ArgsUsage: "[FILE]", Action: invoke(t, configCheck)},
			{Name: "path", Usage: "print the path of the config file", Action: invoke(t, configPath)},
			{Name: "edit", Usage: "open the config in your editor, or a new one", Action: invoke(t, configEdit)},
			{Name: "show", Usage: "print the config file", Action: invoke(t, configShow)},
			{Name: "schema", Usage: "print the JSON Schema of config files, for editors", Action: func(*cli.Context) error {
				_, err := fmt.Fprint(t.Out, configs.Schema)
				return err
			}},
		},
	}
}

func configCheck(ctx context.Context, inv *invocation) error {
	p := inv.paths
	if inv.NArg() > 0 {
		p.Config = inv.Args().First()
	}
	return checkConfig(ctx, inv.Terminal, p)
}

// checkConfig says that the config is valid, or returns what is wrong with it.
func checkConfig(ctx context.Context, t *term.Terminal, p home.Paths) error {
	cfg := readConfig(p) // of one with errors, the hosts are unknown
	with := configs.CheckOptions{Sites: loadSites(t, p), Resolves: func(host string) bool {
		s, err := resolver(p, cfg).Settings(ctx, host)
		return err == nil && s.Hostname != host
	}}
	with.Aliases, _ = sshconfig.Aliases(sshConfigFile(cfg)) // a file that cannot be read has none
	cfg, err := configs.Check(p.Config, with)
	if err != nil {
		return configError(p, err)
	}
	t.Say("%s is valid: %s on %s", p.Config, words.Count(len(cfg.Sessions), "session"), words.Count(len(cfg.HostNames()), "host"))
	for _, s := range cfg.Sessions {
		if configuresJob(s) && slices.Contains(knownHosts(cfg), s.Name) {
			t.Say("! session %s has the name of a host: `tunctl ssh %[1]s` and %[1]s%s lead to the host, not to the job; rename the session", s.Name, aliasSuffix)
		}
	}
	return nil
}

func configPath(_ context.Context, inv *invocation) error {
	_, err := fmt.Fprintln(inv.Out, inv.paths.Config)
	return err
}

func configShow(_ context.Context, inv *invocation) error {
	text, err := os.ReadFile(inv.paths.Config)
	if err != nil {
		return configError(inv.paths, err)
	}
	_, err = inv.Out.Write(text)
	return err
}

// configEdit opens the editor, and again while the file has errors and the
// user wants to fix them.
func configEdit(ctx context.Context, inv *invocation) error {
	if err := configs.Create(inv.paths.Config); err != nil {
		return err
	}
	for {
		if err := openEditor(ctx, inv.paths.Config); err != nil {
			return err
		}
		err := checkConfig(ctx, inv.Terminal, inv.paths)
		if err == nil {
			return nil
		}
		if !inv.Interactive {
			return err
		}
		printError(inv.Terminal, err)
		if again, _ := inv.Agrees(ctx, "Edit again?", true); !again {
			inv.Say("the file stays as you saved it; its changes take effect once the errors are fixed")
			return exitError(exitCode(err))
		}
	}
}

// openEditor runs the user's editor until they close the file.
func openEditor(ctx context.Context, file string) error {
	words := strings.Fields(cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")))
	if len(words) == 0 {
		words = []string{defaultEditor}
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return api.Errorf(api.CodeFailed, "no editor %q is installed", words[0]).
			WithHint("EDITOR=PROGRAM names another one; or open %s yourself", file)
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], file)...) //nolint:gosec // the user's own editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("editor %q: %w", words[0], err)
	}
	return nil
}

// readConfig is the config, empty if it cannot be read: a name may be an alias of
// ~/.ssh/config.
func readConfig(p home.Paths) *configs.Config {
	cfg, err := configs.Load(p.Config)
	if err != nil {
		return &configs.Config{Path: p.Config}
	}
	return cfg
}

// loadConfig reads the config for a command that needs one.
func loadConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := configs.Load(p.Config)
	return cfg, configError(p, err)
}

// configError explains why the config could not be read, if it could not.
func configError(p home.Paths, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return api.Errorf(api.CodeConfig, "no config file at %s", p.Config).Because(err).
			WithHint("`tunctl init` asks a few questions and creates one; `tunctl config edit` starts from an example; %s", demoHint())
	}
	return api.Errorf(api.CodeConfig, "%w", err)
}

// existingConfig reads the config; where there is no file, it is empty.
func existingConfig(p home.Paths) (*configs.Config, error) {
	cfg, err := loadConfig(p)
	if errors.Is(err, os.ErrNotExist) {
		return &configs.Config{Path: p.Config}, nil
	}
	return cfg, err
}

// loadSites returns the sites, and reports those that cannot be read.
func loadSites(t *term.Terminal, p home.Paths) configs.Sites {
	sites, err := configs.LoadSites(configs.SitesFolder(p.Config), p.Sites)
	if err != nil {
		t.Say("%v", err)
	}
	return sites
}

// readSites returns the sites that can be read; `tunctl sites` reports the others.
func readSites(p home.Paths) configs.Sites {
	sites, _ := configs.LoadSites(configs.SitesFolder(p.Config), p.Sites)
	return sites
}

// resolver reads host settings as the agent does.
func resolver(p home.Paths, cfg *configs.Config) sshconfig.Resolver {
	return settings.Resolver(cfg, readSites(p), sshConfigFile(cfg), p)
}

func readHost(ctx context.Context, read sshconfig.Resolver, name string) (api.Host, error) {
	settings, err := read.Settings(ctx, name)
	h := settings.Host()
	h.Alias, h.CertificateEnds = name, userkeys.CertificateEnds(&settings)
	return h, err
}

func sshConfigFile(cfg *configs.Config) string {
	if f := os.Getenv("TUNCTL_SSH_CONFIG"); f != "" {
		return f
	}
	return cfg.SSHConfig
}

// knownHosts are the config's hosts and the ssh config's aliases.
func knownHosts(cfg *configs.Config) []string {
	aliases, _ := sshconfig.Aliases(sshConfigFile(cfg)) // a file that cannot be read has none
	return slices.Sorted(slices.Values(cfg.HostNames(aliases...)))
}

// configuredSessions are the names of the sessions in the config.
func configuredSessions(cfg *configs.Config) []string {
	return lists.Map(cfg.Sessions, func(s configs.Session) string { return s.Name })
}

// practiceMark is a file in the home of a demo. Any agent of that home is confined to the practice
// cluster, whoever starts it.
func practiceMark(p home.Paths) string { return filepath.Join(filepath.Dir(p.State), "practice") }

// isPractice reports whether the agent of these files serves a practice cluster, whose limits are
// short. The user's own agent never does.
func isPractice(p home.Paths) bool {
	_, err := os.Stat(practiceMark(p))
	return p.Moved && (err == nil || os.Getenv("TUNCTL_PRACTICE") != "")
}

// demoOver is in the practiceMark of a demo that ends.
const demoOver = "ended"

// demoEnded reports whether these were the files of a demo that ends, or has ended and removed them.
func demoEnded(p home.Paths) bool {
	text, _ := os.ReadFile(practiceMark(p))
	_, err := os.Stat(filepath.Dir(p.State))
	return p.Moved && (string(text) == demoOver || errors.Is(err, fs.ErrNotExist))
}

// isPracticeAddress reports whether an address can only be a practice cluster's. No host
// of others is in the domain test (RFC 6761).
func isPracticeAddress(address string) bool {
	addr, err := netip.ParseAddr(address)
	return address == "localhost" || strings.HasSuffix(address, ".test") || err == nil && (addr.IsLoopback() || labNetwork.Contains(addr))
}

// labNetwork are the addresses of the lab's own clusters; see internal/dev/real.
var labNetwork = netip.MustParsePrefix("10.77.0.0/16")
