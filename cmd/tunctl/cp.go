package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
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
			"A file appears under its name when it is whole. When the connection is lost, the copy waits and\n" +
			"goes on; when it was interrupted, run it again with --resume.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "resume", Usage: "go on with a copy that was interrupted; skip what is there already"},
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

func copyFiles(ctx context.Context, c *cli.Context, t *terminal) error {
	if c.NArg() < 2 {
		return usagef("cp takes what to copy, and where to")
	}
	p, err := paths(c)
	if err != nil {
		return err
	}
	names := c.Args().Slice()
	last := len(names) - 1
	to := spotOf(names[last])
	var sources []string
	from := spotOf(names[0])
	for _, name := range names[:last] {
		s := spotOf(name)
		if s.host != from.host {
			return usagef("all sources must be in the same place: %q is not where %q is", name, names[0])
		}
		sources = append(sources, s.path)
	}
	if from.host == "" && to.host == "" {
		return usagef("one side must be on a host, as in `tunctl cp data.csv narval:`")
	}
	cl, _, err := t.connect(ctx, p)
	if err != nil {
		return err
	}
	o := transfer.Options{Sources: sources, Target: to.path, Resume: c.Bool("resume"), Progress: new(transfer.Progress)}
	o.Warn = func(format string, args ...any) { t.say("tunctl: "+format, args...) }
	var end func()
	if o.From, end = from.place(t, cl, p); end != nil {
		defer end()
	}
	if o.To, end = to.place(t, cl, p); end != nil {
		defer end()
	}
	done := func() {}
	if !c.Bool("quiet") {
		done = showProgress(ctx, t, o.Progress)
	}
	err = transfer.Copy(ctx, o)
	done()
	return withResumeHint(err)
}

// withResumeHint says how to go on with a copy that failed.
func withResumeHint(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
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

// place is where a spot is; end, if any, closes it.
func (s spot) place(t *terminal, cl *client.Client, p home.Paths) (place transfer.Place, end func()) {
	if s.host == "" {
		return transfer.Local(), nil
	}
	d := &fileDialer{t: t, cl: cl, host: s.loginNode(p)}
	h := transfer.NewHost(d.dial)
	return h, func() { _ = h.Close() }
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

// fileDialer opens streams to a host's file server.
type fileDialer struct {
	t    *terminal
	cl   *client.Client
	host string
}

func (d *fileDialer) dial(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error) {
	req := api.StreamRequest{Kind: api.StreamSFTP, Host: d.host, Again: again, Spare: spare}
	if spare {
		return d.cl.Stream(ctx, req)
	}
	if !again {
		return d.t.stream(ctx, d.cl, req)
	}
	d.t.say("tunctl: the connection to %s was lost; waiting for it", d.host)
	for {
		s, err := d.cl.Stream(ctx, req)
		e, ok := errors.AsType[*api.Error](err)
		switch {
		case err == nil:
			d.t.say("tunctl: connected to %s again", d.host)
			return s, nil
		case ok && e.Code == api.CodeTimeout && ctx.Err() == nil:
			// The agent goes on trying, in its own time.
		case ok && e.Code == api.CodeNeedsPerson && d.t.asks:
			return d.t.stream(ctx, d.cl, api.StreamRequest{Kind: api.StreamSFTP, Host: d.host})
		case ok && e.Code == api.CodeNeedsPerson:
			e.Hint = fmt.Sprintf("`tunctl login %s`, and then the same command with --resume", d.host)
			return nil, e
		default:
			return nil, err
		}
	}
}
