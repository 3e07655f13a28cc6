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
	"tunctl/internal/transfer"
)

func cpCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "cp",
		Usage:     "copy files and folders to or from a host, over the login there is",
		ArgsUsage: "SRC... DST",
		Description: "HOST:PATH or SESSION:PATH is on a host, from your home there; anything else is here\n" +
			"(write ./a:b for a file with a colon). Folders are copied whole, with modes and times; quote\n" +
			"patterns for the host: tunctl cp 'narval:results/*.csv' .\n\n" +
			"Where the site has a data-transfer node, the files go through that; it may ask for a login of\n" +
			"its own, once. --via login copies through the login node.\n\n" +
			"A file appears under its name when it is whole. When the connection is lost, the copy waits and\n" +
			"goes on; when it was interrupted, run it again with --resume.\n\n" +
			"  tunctl cp data.csv narval:\n" +
			"  tunctl cp narval:results .",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "resume", Usage: "go on with a copy that was interrupted; skip what is there already"},
			&cli.StringFlag{Name: "via", Usage: "copy through this `NODE` alone: login or transfer"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "nothing: folders are always copied whole", Hidden: true},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := interruptible(c.Context)
			defer stop()
			err := copyFiles(ctx, c, t)
			if c.Err() == nil && ctx.Err() != nil {
				t.say("interrupted; `tunctl cp --resume` goes on from here")
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

func copyFiles(ctx context.Context, c *cli.Context, t *terminal) error {
	from, sources, to, err := copyArguments(c)
	if err != nil {
		return err
	}
	p, err := paths(c)
	if err != nil {
		return err
	}
	cl, _, err := t.connect(ctx, p)
	if err != nil {
		return err
	}
	o := transfer.Options{
		From: transfer.Local(), Sources: sources, To: transfer.Local(), Target: to.path,
		Resume: c.Bool("resume"), Progress: new(transfer.Progress),
		Warn: func(format string, args ...any) { t.say("tunctl: "+format, args...) },
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
		return noFolder(missing.Path, to)
	}
	return withResumeHint(err, o.Progress.Counts())
}

// noFolder says where a folder is missing.
func noFolder(path string, to spot) error {
	place := "on this machine"
	if to.host != "" {
		place = "on " + to.host
	}
	return &api.Error{
		Code: api.CodeFailed, Message: fmt.Sprintf("there is no folder %q %s", path, place),
		Hint: "make it first, or copy into one that is there",
	}
}

// copyArguments reads what to copy, all of it in one place, and where to.
func copyArguments(c *cli.Context) (from spot, sources []string, to spot, err error) {
	if c.NArg() < 2 {
		return from, nil, to, usagef("cp takes what to copy, and where to, as in `tunctl cp data.csv narval:`")
	}
	if via := c.String("via"); via != "" && via != viaLogin && via != viaTransfer {
		return from, nil, to, usagef("--via is %s or %s, not %q", viaLogin, viaTransfer, via)
	}
	names := c.Args().Slice()
	last := len(names) - 1
	from, to = spotOf(names[0]), spotOf(names[last])
	for _, name := range names[:last] {
		s := spotOf(name)
		if s.host != from.host {
			return from, nil, to, usagef("all sources must be in the same place: %q is not where %q is", name, names[0])
		}
		sources = append(sources, s.path)
	}
	if from.host == "" && to.host == "" {
		return from, nil, to, usagef("one side must be on a host, as in `tunctl cp data.csv narval:`")
	}
	return from, sources, to, nil
}

// withResumeHint says how to go on with a copy that failed, where it left something to
// go on from.
func withResumeHint(err error, c transfer.Counts) error {
	if err == nil || errors.Is(err, context.Canceled) || c.Copied+c.Skipped == 0 {
		return err
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e // it has its own way out
	}
	return &api.Error{Code: api.CodeFailed, Message: err.Error(), Hint: "when that is mended, the same command with --resume goes on", Err: err}
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
