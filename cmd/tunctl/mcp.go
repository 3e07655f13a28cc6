package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/cmdline"
	"tunctl/internal/mcp"
	"tunctl/internal/term"
)

func mcpCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:   "mcp",
		Usage:  "let a coding assistant see your sessions, and ask to start them",
		Action: invokeInterruptible(t, serveMCP),
		Subcommands: []*cli.Command{{
			Name:        "approve",
			Usage:       "answer in this terminal what assistants ask for",
			Description: "Waits for requests and asks you about each, until Ctrl-C.",
			Action:      invokeInterruptible(t, approveRequests),
		}},
	}
}

func serveMCP(ctx context.Context, inv *invocation) error {
	if inv.NArg() > 0 {
		return cmdline.UnknownCommand(inv.Command, false, inv.Args().First())
	}
	apps, err := customApps(inv.paths)
	if err != nil {
		return err
	}
	if inv.Interactive {
		inv.Say("this command is for a coding assistant: add `tunctl mcp` to its MCP servers, and it starts this itself; Ctrl-C ends it")
	}
	o := mcp.Options{Client: inv.client, Sites: loadSites(inv.Terminal, inv.paths), Apps: apps, Version: version()}
	return mcp.Serve(ctx, o, inv.In, inv.Out)
}

// approveRequests asks the user at this terminal whatever assistants want approved.
func approveRequests(ctx context.Context, inv *invocation) error {
	if !inv.Interactive {
		return api.Errorf(api.CodeNeedsPerson, "mcp approve needs a terminal").
			WithHint("run it in one, or start the tray: `tunctl tray`")
	}
	if _, err := inv.ensureAgent(ctx); err != nil {
		return err
	}
	q := &promptReader{term: inv.Terminal, client: inv.client}
	defer q.asking.Wait()
	inv.Say("waiting for what assistants ask for; Ctrl-C ends this")
	return inv.client.Watch(ctx, api.AnswersApproval, "", func(e api.Event) {
		if !q.handle(ctx, e) && e.Notice != nil && e.Notice.Session == "" {
			inv.Say("%s", e.Notice.Text)
		}
	})
}
