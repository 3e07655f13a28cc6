package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"tunctl/internal/term"
)

// commands are all commands, by the chapters in which `tunctl help all` and the man
// page show them: what a person needs first comes first.
func commands(t *term.Terminal) []*cli.Command {
	return slices.Concat(
		chapter("Every day",
			upCommand(t), downCommand(t), statusCommand(t), openCommand(t), logsCommand(t), extendCommand(t), trayCommand(t)),
		chapter("Jobs and hosts",
			attachCommand(t), jobsCommand(t), submitCommand(t), cancelCommand(t), historyCommand(t), quotaCommand(t),
			loginCommand(t), logoutCommand(t), hostsCommand(t)),
		chapter("One login for everything",
			sshCommand(t), cpCommand(t), sshConfigCommand(t), forwardCommand(t), connectCommand(t)),
		chapter("Setting up",
			demoCommand(t), initCommand(t), sitesCommand(t), scriptCommand(t), configCommand(t), autostartCommand(t), completionCommand(t)),
		chapter("Troubleshooting",
			doctorCommand(t), detectCommand(t), agentCommand(t), versionCommand(t)),
		[]*cli.Command{practicePageCommand(t), keyringCommand(t), manCommand(), helpCommand(t)}, // hidden
	)
}

func chapter(name string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = name
	}
	return commands
}
