package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/internal/words"
	"tunctl/tunnel/sshconfig"
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
