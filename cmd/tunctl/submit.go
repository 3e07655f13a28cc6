package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
		ArgsUsage: "[HOST] SCRIPT [-- OPTIONS...]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "workdir", Usage: "submit from this `FOLDER` on the host (default: home)"},
			&cli.BoolFlag{Name: "json", Usage: "print the job as JSON"},
		},
		Action: invokeInterruptible(t, submit),
	}
}

// submitRequest reads the arguments. A script alone is for the only host.
func submitRequest(inv *invocation) (host string, req api.SubmitRequest, err error) {
	words, options := inv.Args().Slice(), []string(nil)
	if i := slices.Index(words, "--"); i >= 0 {
		words, options = words[:i], words[i+1:]
	}
	switch {
	case len(words) == 0, len(words) == 1 && inv.isHost(words[0]):
		return "", req, usagef("submit takes a host and a script: `tunctl submit HOST SCRIPT`")
	case len(words) == 1:
		if host, err = inv.onlyHost(); err != nil {
			return "", req, err
		}
		words = []string{host, words[0]}
	case len(words) > 2:
		return "", req, usagef("options for the scheduler go after --: `tunctl submit %s %s -- %s`", words[0], words[1], strings.Join(words[2:], " "))
	}
	script, err := findScript(words[1])
	if err != nil {
		err = api.ReplaceHint(err, "for a script on %s, leave out %q", words[0], localPrefix)
	}
	return words[0], api.SubmitRequest{Script: script, Workdir: inv.String("workdir"), Args: options}, err
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
	if errors.Is(err, fs.ErrNotExist) {
		err = usagef("no script %q on this machine", file)
	}
	return localPrefix + whole, err
}

func submit(ctx context.Context, inv *invocation) error {
	host, req, err := submitRequest(inv)
	if err != nil {
		return err
	}
	if err := inv.connectHost(ctx, host, inv.authenticate); err != nil {
		return err
	}
	job, err := inv.client.Submit(ctx, host, req)
	if ctx.Err() != nil {
		inv.Say("the job may still be submitted on %s: `tunctl status` shows it if it appears", host)
	}
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
