package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

// localPrefix marks a script on this machine, as in a session's submit.
const localPrefix = "local:"

func submitCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "submit",
		Usage:     "submit a job script on a host, exactly once",
		ArgsUsage: "HOST SCRIPT [-- OPTIONS...]",
		Description: `SCRIPT is a path on the host, such as ~/train.sh. local:./train.sh is a script on this machine, which
			tunctl uploads first. Everything after -- is passed to sbatch or qsub:

			   tunctl submit narval local:./train.sh -- --time=2:00:00 --gres=gpu:1

			A lost connection is waited for, and never leads to a second job. Prints the job id.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "workdir", Usage: "submit from this `FOLDER` on the host (default: your home folder)"},
			&cli.BoolFlag{Name: "json", Usage: "print the job as JSON"},
		},
		Action: invokeInterruptible(t, submit),
	}
}

func submitRequest(c *cli.Context) (api.SubmitRequest, error) {
	words := c.Args().Slice()
	if len(words) < 2 || words[1] == "--" {
		return api.SubmitRequest{}, usagef("submit takes a host and a script: `tunctl submit HOST SCRIPT`")
	}
	req := api.SubmitRequest{Script: words[1], Workdir: c.String("workdir")}
	if len(words) > 2 {
		if words[2] != "--" {
			return req, usagef("options for the scheduler go after --: `tunctl submit %s %s -- %s`", words[0], words[1], strings.Join(words[2:], " "))
		}
		req.Args = words[3:]
	}
	var err error
	if req.Script, err = findScript(req.Script); err != nil {
		err = api.ReplaceHint(err, "for a script on %s, leave out %q", words[0], localPrefix)
	}
	return req, err
}

// findScript is a script as it is submitted: a file of this machine with its whole path, since
// the agent runs in another folder.
func findScript(script string) (string, error) {
	file, ok := strings.CutPrefix(script, localPrefix)
	if !ok {
		return script, nil
	}
	whole, err := filepath.Abs(configs.LocalPath(file))
	if err == nil {
		_, err = os.Stat(whole)
	}
	if err != nil {
		return "", api.Errorf(api.CodeUsage, "%w", err)
	}
	return localPrefix + whole, nil
}

func submit(ctx context.Context, inv *invocation) error {
	req, err := submitRequest(inv.Context)
	if err != nil {
		return err
	}
	host := inv.Args().First()
	if err := inv.connectHostQuietly(ctx, host); err != nil {
		return err
	}
	job, err := inv.client.Submit(ctx, host, req)
	if err != nil {
		return withLocalHint(err, req.Script)
	}
	if inv.Bool("json") {
		return inv.PrintIndentedJSON(api.HostJob{Host: host, Job: job})
	}
	inv.Say("%s submitted %s", inv.Paint(term.Green, "✓"), show.Job(job, time.Now()))
	if why := show.Why(job); why != "" {
		inv.Say("  %s", why)
	}
	if job.Log != "" {
		inv.Say("  log: %s", job.Log)
	}
	fmt.Fprintln(inv.Out, job.ID)
	return nil
}

// withLocalHint points to a script of that name on this machine.
func withLocalHint(err error, script string) error {
	if _, here := os.Stat(script); here != nil || hintOf(err) != "" || !api.HasCode(err, api.CodeSubmit) {
		return err
	}
	return api.ReplaceHint(err, "a script of that name is on this machine: %s%s uploads it first", localPrefix, script)
}
