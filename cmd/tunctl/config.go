package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/tunnel/sshconfig"
)

func configCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "show, check and edit the config file",
		Subcommands: []*cli.Command{
			{Name: "check", Usage: "check the config file", ArgsUsage: "[FILE]", Action: func(c *cli.Context) error { return configCheck(c, t) }},
			{Name: "path", Usage: "print the path of the config file", Action: configPath(t)},
			{Name: "edit", Usage: "open the config in your editor, or a new one", Action: func(c *cli.Context) error { return configEdit(c, t) }},
			{Name: "show", Usage: "print the config file", Action: configShow(t)},
		},
	}
}

func configCheck(c *cli.Context, t *term.Terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	if c.NArg() > 0 {
		p.Config = c.Args().First()
	}
	return checkConfig(c.Context, t, p)
}

// checkConfig says that the config is valid, or returns what is wrong with it.
func checkConfig(ctx context.Context, t *term.Terminal, p home.Paths) error {
	cfg, err := configs.Load(p.Config)
	if err != nil { // its hosts are unknown then
		cfg = &configs.Config{Path: p.Config}
	}
	with := configs.Surroundings{Sites: loadSites(t, p), Resolves: func(host string) bool {
		s, err := resolver(p, cfg).Settings(ctx, host)
		return err == nil && s.Hostname != host
	}}
	with.Aliases, _ = sshconfig.Aliases(sshConfigFile(cfg)) // a file that cannot be read has none
	if cfg, err = configs.Check(p.Config, with); err != nil {
		return configError(p, err)
	}
	t.Say("%s is valid: %s on %s", p.Config, counted(len(cfg.Sessions), "session"), counted(len(cfg.HostNames()), "host"))
	return nil
}

// counted is a number of things, in the plural unless it is one.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func configPath(t *term.Terminal) cli.ActionFunc {
	return func(c *cli.Context) error {
		p, err := paths(c)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(t.Out, p.Config)
		return err
	}
}

func configShow(t *term.Terminal) cli.ActionFunc {
	return func(c *cli.Context) error {
		p, err := paths(c)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p.Config)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = loadConfig(p)
			return err
		}
		if err != nil {
			return err
		}
		_, err = t.Out.Write(text)
		return err
	}
}

// configEdit opens the editor, and again while the file has errors and the
// person wants to fix them.
func configEdit(c *cli.Context, t *term.Terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	if err := configs.Create(p.Config); err != nil {
		return err
	}
	for {
		if err := runEditor(c, p.Config); err != nil {
			return err
		}
		err := checkConfig(c.Context, t, p)
		if err == nil {
			return nil
		}
		if !t.Interactive {
			return err
		}
		explain(t, err)
		again, unread := t.ReadLine(c.Context, "Edit again? [Y/n] ", true)
		if unread != nil || strings.HasPrefix(strings.ToLower(again), "n") {
			t.Say("the file stays as you saved it; its changes take effect once the errors are fixed")
			return silentError(exitCode(err))
		}
	}
}

func runEditor(c *cli.Context, file string) error {
	words := strings.Fields(firstSet("VISUAL", "EDITOR"))
	if len(words) == 0 {
		words = []string{"vi"}
		if runtime.GOOS == "windows" {
			words = []string{"notepad"}
		}
	}
	cmd := exec.CommandContext(c.Context, words[0], append(words[1:], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("editor %q: %w", words[0], err)
	}
	return nil
}

func firstSet(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// appendConfig adds text at the end of the config file. A running agent has read it when
// this returns.
func appendConfig(ctx context.Context, p home.Paths, text string) error {
	if err := configs.Append(p.Config, text); err != nil {
		return err
	}
	if err := client.New(p).Reload(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	return nil
}
