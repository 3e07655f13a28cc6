package main

import (
	"context"
	"io"
	"regexp"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

func logsCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the log of a session's job, or of any of your jobs",
		ArgsUsage: "[SESSION | HOST JOB]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep showing new lines until the job ends"},
			&cli.BoolFlag{Name: "secrets", Usage: "show tokens instead of •••"},
		},
		Action: invokeInterruptible(t, atMost(2, "a session, or a host and a job", logs)),
	}
}

// logs shows the log that the arguments name. That of a job without a session may need a login to its host.
func logs(ctx context.Context, inv *invocation) error {
	q := api.LogQuery{Follow: inv.Bool("follow"), Secrets: inv.Bool("secrets")}
	words := inv.Args().Slice()
	if len(words) == 1 && words[0] >= "0" && words[0] < ":" { // a job, unless a session has that name
		st, _ := inv.status(ctx)
		if _, known := st.Session(words[0]); !known {
			host, err := inv.onlyHost()
			if err != nil {
				return err
			}
			words = []string{host, words[0]}
		}
	}
	var err error
	if len(words) == 2 {
		q.Host, q.Job = words[0], words[1]
		err = inv.connectHost(ctx, q.Host, inv.login)
	} else {
		q.Session, err = inv.chooseSession(ctx, "Show the log of which session?", "no session has a job", api.Session.HasLiveJob, hasJob)
	}
	if err != nil {
		return err
	}
	out := inv.Out
	if term.IsTerminal(out) {
		safe := api.NewSanitizer(out)
		defer safe.ResetColour()
		out = safe
	}
	return showLog(ctx, inv, q, out)
}

// runEnd is what ends the output of a `tunctl run`, with its mark, which means nothing to the user.
var runEnd = regexp.MustCompile(configs.RunEnd("[A-Z2-7]{26}"))

// silentLog is how long a followed log may stay empty before a message.
const silentLog = 3 * time.Second

// showLog prints a log, or a message if it is empty.
func showLog(ctx context.Context, inv *invocation, q api.LogQuery, out io.Writer) error {
	shown, empty := false, "the log is empty so far"
	silence := time.AfterFunc(silentLog, func() {
		if q.Follow {
			inv.Say("no output yet; waiting for the log (Ctrl-C stops)")
		}
	})
	defer silence.Stop()
	err := inv.client.Log(ctx, q, func(chunk api.LogChunk) {
		if chunk.Restarted {
			inv.Say("— %s was started again —", chunk.Path)
		}
		if chunk.Ended != "" {
			empty = chunk.Ended + ": the log is empty"
			if shown {
				inv.Say("— %s: the log is complete —", chunk.Ended)
			}
		}
		if text := runEnd.ReplaceAll(chunk.Bytes(), []byte("tunctl: the command ended with status ")); len(text) > 0 {
			silence.Stop()
			shown = true
			_, _ = out.Write(text) // an error ends ctx
		}
	})
	if api.HasCode(err, api.CodeNotReady) && hintOf(err) == "" {
		err = api.ReplaceHint(err, "the job may not have written anything yet: `tunctl logs -f` waits for it")
	}
	if err == nil && !shown && ctx.Err() == nil {
		inv.Say("%s", empty)
	}
	return err
}
