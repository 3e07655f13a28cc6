package main

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/term"
)

//go:embed completion
var completionScripts embed.FS

func completionCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script for a shell",
		ArgsUsage: "bash|zsh|fish|powershell",
		Description: "Packages and `make install` install the scripts. Otherwise add the line of your shell to its\n" +
			"startup file:\n\n" +
			"bash:        source <(tunctl completion bash)\n" +
			"zsh:         source <(tunctl completion zsh)\n" +
			"fish:        tunctl completion fish | source\n" +
			"powershell:  tunctl completion powershell | Out-String | Invoke-Expression",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("completion takes one shell: bash, zsh, fish or powershell")
			}
			text, err := fs.ReadFile(completionScripts, "completion/"+strings.ToLower(c.Args().First()))
			if err != nil {
				return usagef("no completion for %q: the shell must be bash, zsh, fish or powershell", c.Args().First())
			}
			_, err = t.Out.Write(text)
			return err
		},
	}
}
