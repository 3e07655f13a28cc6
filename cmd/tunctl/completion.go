package main

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"
)

//go:embed completion
var completionScripts embed.FS

func completionCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script for a shell",
		ArgsUsage: "bash|zsh|fish|powershell",
		Description: "bash:        source <(tunctl completion bash)\n" +
			"zsh:         source <(tunctl completion zsh)\n" +
			"fish:        tunctl completion fish | source\n" +
			"powershell:  tunctl completion powershell | Out-String | Invoke-Expression",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("completion takes one shell: bash, zsh, fish or powershell")
			}
			text, err := fs.ReadFile(completionScripts, "completion/"+strings.ToLower(c.Args().First()))
			if err != nil {
				return usagef("no completion for %q; there is bash, zsh, fish and powershell", c.Args().First())
			}
			_, err = t.out.Write(text)
			return err
		},
	}
}
