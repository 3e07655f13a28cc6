package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/internal/transfer"
)

func cpCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "cp",
		Usage:     "copy files and folders to or from a host, over the existing connection",
		ArgsUsage: "SRC... DST",
		Description: "HOST:PATH or SESSION:PATH is a file on a host, relative to your home folder there; anything\n" +
			"else is on this machine (write ./a:b for a file with a colon). Folders are copied recursively,\n" +
			"with modes and times. Quote patterns for the host: tunctl cp 'narval:results/*.csv' .\n\n" +
			"If the site has a data-transfer node, the files go through that node, which may ask for a login\n" +
			"of its own, once. --via login copies through the login node instead.\n\n" +
			"A file gets its name only when it is complete. If the connection is lost, the copy waits and then\n" +
			"continues; if you interrupt it, run it again with --resume.\n\n" +
			"  tunctl cp data.csv narval:\n" +
			"  tunctl cp narval:results .",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "resume", Usage: "continue an interrupted copy; skip files that are complete"},
			&cli.StringFlag{Name: "via", Usage: "copy through this `NODE` only: login or transfer"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "do not show progress"},
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "has no effect: folders are always copied recursively", Hidden: true},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := interruptible(c.Context)
			defer stop()
			err := copyFiles(ctx, c, t)
			if c.Err() == nil && ctx.Err() != nil {
				t.Say("interrupted; rerun with --resume to continue")
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

// The values of --via.
const (
	viaLogin    = "login"
	viaTransfer = "transfer"
)

func copyFiles(ctx context.Context, c *cli.Context, t *term.Terminal) error {
	from, sources, to, err := copyArguments(c)
	if err != nil {
		return err
	}
	p, err := paths(c)
	if err != nil {
		return err
	}
	cl, _, err := connect(ctx, t, p)
	if err != nil {
		return err
	}
	o := transfer.Options{
		From: transfer.Local(), Sources: sources, To: transfer.Local(), Target: to.path,
		Resume: c.Bool("resume"), Progress: new(transfer.Progress),
		Warn: func(format string, args ...any) { t.Say("tunctl: "+format, args...) },
	}
	for _, end := range []struct {
		spot  spot
		place *transfer.Place
	}{{from, &o.From}, {to, &o.To}} {
		if end.spot.host == "" {
			continue
		}
		d := &fileDialer{t: t, cl: cl, host: end.spot.loginNode(p), quiet: c.Bool("quiet"), strict: c.String("via") == viaTransfer}
		if c.String("via") != viaLogin {
			d.transfer = transferNode(ctx, t, p, d.host)
		}
		h := transfer.NewHost(d.dial, d.ping)
		defer func() { _ = h.Close() }()
		*end.place = h
	}
	done := func() {}
	if !c.Bool("quiet") {
		done = showProgress(ctx, t, o.Progress)
	}
	err = transfer.Copy(ctx, o)
	done()
	if missing, ok := errors.AsType[*transfer.NoFolderError](err); ok {
		return &api.Error{
			Code: api.CodeFailed, Message: missing.Error() + " " + to.where(), Err: err,
			Hint: "create it first, or copy into an existing folder",
		}
	}
	if missing, ok := errors.AsType[*transfer.NoSourceError](err); ok {
		return noSource(missing, from)
	}
	return withResumeHint(err, o.Progress.Counts())
}

// noSource says where a source is missing, and how its path was read.
func noSource(missing *transfer.NoSourceError, from spot) error {
	e := &api.Error{Code: api.CodeFailed, Message: missing.Error() + " " + from.where(), Err: missing}
	switch relative := !strings.HasPrefix(missing.Path, "/"); {
	case from.host != "" && relative:
		e.Hint = fmt.Sprintf("paths start in your home folder there: `tunctl ssh %s ls` lists it", from.host)
	case from.host == "":
		e.Hint = "for a file on a host, write HOST:PATH"
	}
	return e
}

// copyArguments reads what to copy, all of it in one place, and where to.
func copyArguments(c *cli.Context) (from spot, sources []string, to spot, err error) {
	if c.NArg() < 2 {
		return from, nil, to, usagef("cp takes a source and a target, as in `tunctl cp data.csv narval:`")
	}
	if via := c.String("via"); via != "" && via != viaLogin && via != viaTransfer {
		return from, nil, to, usagef("--via takes %s or %s, not %q", viaLogin, viaTransfer, via)
	}
	names := c.Args().Slice()
	last := len(names) - 1
	from, to = spotOf(names[0]), spotOf(names[last])
	for _, name := range names[:last] {
		s := spotOf(name)
		if s.host != from.host {
			return from, nil, to, usagef("all sources must be on the same host: %q and %q are not", names[0], name)
		}
		sources = append(sources, s.path)
	}
	if from.host == "" && to.host == "" {
		return from, nil, to, usagef("the source or the target must be on a host, as in `tunctl cp data.csv narval:`")
	}
	return from, sources, to, nil
}

// withResumeHint says how to continue a copy that failed, if it copied anything.
func withResumeHint(err error, c transfer.Counts) error {
	if err == nil || errors.Is(err, context.Canceled) || c.Copied+c.Skipped == 0 {
		return err
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e // it has a hint of its own
	}
	return &api.Error{Code: api.CodeFailed, Message: err.Error(), Hint: "fix this, then rerun with --resume", Err: err}
}

// spot is a path here or on a host.
type spot struct{ host, path string }

// spotOf reads HOST:PATH. A path is relative to the home folder there, which is where
// a file server starts.
func spotOf(text string) spot {
	host, rest, ok := strings.Cut(text, ":")
	drive := runtime.GOOS == "windows" && len(host) == 1
	if !ok || host == "" || strings.ContainsAny(host, `/\`) || drive {
		return spot{path: text}
	}
	rest = strings.TrimPrefix(rest, "~/")
	if rest == "" || rest == "~" {
		rest = "."
	}
	return spot{host, rest}
}

// where is the place of a path in words.
func (s spot) where() string {
	if s.host == "" {
		return "on this machine"
	}
	return "on " + s.host
}

// loginNode is the host itself, or that of the session: homes are the same on its nodes,
// and login nodes have the file server.
func (s spot) loginNode(p home.Paths) string {
	if cfg, err := configs.Load(p.Config); err == nil {
		if session, ok := cfg.Session(s.host); ok {
			return session.Host
		}
	}
	return s.host
}
