package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
	"tunctl/internal/show"
	"tunctl/internal/term"
	"tunctl/internal/transfer"
	"tunctl/internal/words"
)

func cpCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "cp",
		Usage:     "copy files to or from a host or a job, without another login",
		ArgsUsage: "SRC... DST",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "resume", Usage: "continue an interrupted copy; skip files that are complete"},
			&cli.StringFlag{Name: "via", Usage: "copy through this `NODE` only: login or transfer"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "do not show progress"},
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "has no effect: folders are always copied recursively", Hidden: true},
		},
		Action: invokeInterruptible(t, func(ctx context.Context, inv *invocation) error {
			err := copyFiles(ctx, inv)
			if inv.Context.Err() == nil && ctx.Err() != nil {
				inv.Say("interrupted; rerun with --resume to continue")
			}
			return err
		}),
	}
}

func copyFiles(ctx context.Context, inv *invocation) error {
	from, sources, to, err := copyArguments(inv.Context)
	if err != nil {
		return err
	}
	o := transfer.Options{
		From: transfer.Local(), Sources: sources, To: transfer.Local(), Target: to.path,
		Resume: inv.Bool("resume"), Progress: new(transfer.Progress),
		Warn: func(format string, args ...any) { inv.Say("tunctl: "+format, args...) },
	}
	for _, end := range []struct {
		location location
		place    *transfer.Place
	}{{from, &o.From}, {to, &o.To}} {
		if end.location.host == "" {
			continue
		}
		d, err := newFileDialer(ctx, inv, end.location.host)
		if err != nil {
			return err
		}
		h := transfer.NewHost(d.dial)
		defer func() { _ = h.Close() }()
		*end.place = h
	}
	done := func() {}
	if !inv.Bool("quiet") {
		done = showProgress(ctx, inv.Terminal, o.Progress)
	}
	err = inv.withNearSession(cmp.Or(to.host, from.host), transfer.Copy(ctx, o))
	done()
	if missing, ok := errors.AsType[*transfer.NoFolderError](err); ok {
		return api.Errorf(api.CodeFailed, "%v %s", missing, to.where()).Because(err).
			WithHint("create it first, or copy into an existing folder")
	}
	if missing, ok := errors.AsType[*transfer.NoSourceError](err); ok {
		return noSource(missing, from)
	}
	return withResumeHint(err, o.Progress.Counts())
}

// noSource says where a source is missing, and how its path was read.
func noSource(missing *transfer.NoSourceError, from location) error {
	e := api.Errorf(api.CodeFailed, "%w %s", missing, from.where())
	switch relative := !strings.HasPrefix(missing.Path, "/"); {
	case from.host != "" && relative:
		e.Hint = fmt.Sprintf("paths start in your home folder there: `tunctl ssh %s ls` lists it", from.host)
	case from.host == "":
		e.Hint = "for a file on a host, write HOST:PATH"
	}
	return e
}

// copyArguments reads the sources, which are all in one place, and the target.
func copyArguments(c *cli.Context) (from location, sources []string, to location, err error) {
	if c.NArg() < 2 {
		return from, nil, to, usagef("cp takes a source and a target, as in `tunctl cp data.csv narval:`")
	}
	if via := c.String("via"); via != "" && via != viaLogin && via != viaTransfer {
		return from, nil, to, usagef("--via takes %s or %s, not %q", viaLogin, viaTransfer, via)
	}
	names := c.Args().Slice()
	last := len(names) - 1
	from, to = parseLocation(names[0]), parseLocation(names[last])
	for _, name := range names[:last] {
		s := parseLocation(name)
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
	if errors.Is(err, transfer.ErrOtherCopy) {
		return api.Errorf(api.CodeFailed, "%w", err).WithHint("wait for the other copy or stop it, then rerun with --resume")
	}
	if err == nil || errors.Is(err, context.Canceled) || c.Copied+c.Skipped == 0 {
		return err
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e // it has a hint of its own
	}
	return api.Errorf(api.CodeFailed, "%w", err).WithHint("fix this, then rerun with --resume")
}

// location is a path here or on a host.
type location struct{ host, path string }

// parseLocation reads HOST:PATH. A path is relative to the home folder there, which is where
// a file server starts.
func parseLocation(text string) location {
	host, rest, ok := strings.Cut(text, ":")
	if !ok || host == "" || strings.ContainsAny(host, `/\`) || isDrive(host) {
		return location{path: text}
	}
	rest = strings.TrimPrefix(rest, "~/")
	if rest == "" || rest == "~" {
		rest = "."
	}
	return location{host, rest}
}

// where says on which machine a path is.
func (l location) where() string {
	if l.host == "" {
		return "on this machine"
	}
	return "on " + l.host
}

// progressEvery is how often the line is redrawn; the rate is over the last seconds.
const (
	progressEvery  = 200 * time.Millisecond
	progressWindow = 25
)

// showProgress draws a copy's progress until done is called, which prints a summary.
func showProgress(ctx context.Context, t *term.Terminal, p *transfer.Progress) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	start := time.Now()
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for m := (meter{}); ctxtime.Sleep(ctx, progressEvery) == nil; {
			t.Draw(m.line(p.Counts(), time.Now()))
		}
	})
	return func() {
		cancel()
		drawing.Wait()
		t.Draw("")
		if c := p.Counts(); c.Files > 0 {
			t.Say("%s", summary(c, time.Since(start)))
		}
	}
}

// summary is the result of a copy.
func summary(c transfer.Counts, took time.Duration) string {
	text := fmt.Sprintf("%s, %s in %s", words.Count(int(c.Files), "file"), words.Bytes(c.Copied), show.Stopwatch(took))
	if c.Skipped > 0 {
		text += fmt.Sprintf(", %s skipped", words.Bytes(c.Skipped))
	}
	return text
}

// meter turns counts into a rate.
type meter struct{ samples []sample }

type sample struct {
	at    time.Time
	bytes int64
}

// line is the progress in one line: a bar, how much, how fast, and the time left.
func (m *meter) line(c transfer.Counts, now time.Time) string {
	m.samples = append(m.samples, sample{now, c.Copied})
	if len(m.samples) > progressWindow {
		m.samples = m.samples[1:]
	}
	rate := 0.0
	first := m.samples[0]
	if d := now.Sub(first.at).Seconds(); d > 0 {
		rate = float64(c.Copied-first.bytes) / d
	}
	done := c.Copied + c.Skipped
	text := fmt.Sprintf("%s %s of %s, %d of %d files, %s/s", progressBar(done, c.Total), words.Bytes(done), words.Bytes(c.Total), c.Files, c.Of, words.Bytes(int64(rate)))
	switch left := c.Total - done; {
	case !c.Listed:
		text += ", still listing"
	case rate > 0 && left > 0:
		text += ", " + api.DurationText(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
	}
	return text
}

const barWidth = 20

func progressBar(done, total int64) string {
	filled := int(min(barWidth, done*barWidth/max(1, total)))
	return "▕" + strings.Repeat("█", filled) + strings.Repeat(" ", barWidth-filled) + "▏"
}

// fileDialer opens streams to a host's file server, to that of its data-transfer node,
// which has the same files, or to one inside a job.
type fileDialer struct {
	*invocation
	transfer string                            // the data-transfer node; "": none
	to       atomic.Pointer[api.StreamRequest] // where streams go
}

// newFileDialer reads HOST or SESSION. --via names a node outside the job.
func newFileDialer(ctx context.Context, inv *invocation, name string) (*fileDialer, error) {
	via := inv.String("via")
	find := inv.destination
	if via != "" {
		find = inv.loginNode
	}
	to, err := find(ctx, name)
	if err != nil {
		if to.Session != "" {
			err = withViaHint(err)
		}
		return nil, err
	}
	to.Kind = api.StreamSFTP
	d := &fileDialer{invocation: inv}
	d.to.Store(&to)
	if to.Session == "" && to.Node == "" && via != viaLogin {
		d.transfer = transferNode(ctx, inv.Terminal, inv.paths, to.Host)
	}
	return d, nil
}

// withViaHint adds to the error of a session without a running job how its files can be
// copied all the same.
func withViaHint(err error) error {
	if !api.HasCode(err, api.CodeNotReady, api.CodeJobEnded) {
		return err
	}
	return api.ReplaceHint(err, "%s; `tunctl cp --via login` copies through the login node", hintOf(err))
}

func (d *fileDialer) dial(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error) {
	req := *d.to.Load()
	req.Again, req.Spare = again, spare
	s, err := d.open(ctx, req)
	if req.Session != "" {
		err = withViaHint(err)
	}
	return s, err
}

func (d *fileDialer) open(ctx context.Context, req api.StreamRequest) (io.ReadWriteCloser, error) {
	switch {
	case req.Spare:
		return d.client.Stream(ctx, req)
	case req.Again:
		return d.dialAgain(ctx, req)
	case d.transfer != "":
		return d.dialTransfer(ctx, req)
	}
	return openStream(ctx, d.Terminal, d.client, req)
}

// dialTransfer opens the first stream, which decides where all of them go: to the
// data-transfer node, or to the host itself if that node cannot be used.
func (d *fileDialer) dialTransfer(ctx context.Context, req api.StreamRequest) (io.ReadWriteCloser, error) {
	through := req
	through.Host = d.transfer
	s, err := openStream(ctx, d.Terminal, d.client, through)
	if err == nil {
		d.to.Store(&through)
		if !d.Bool("quiet") {
			d.Say("tunctl: copying through the data-transfer node %s", d.transfer)
		}
		return s, nil
	}
	if asked := api.HasCode(err, api.CodeNeedsPerson) && d.Interactive; ctx.Err() != nil || asked || d.String("via") == viaTransfer {
		return nil, err
	}
	d.Say("tunctl: cannot use the data-transfer node %s (%v); copying through %s instead", d.transfer, err, req.Host)
	_ = d.client.Logout(ctx, d.transfer) // else the agent would keep trying; it has no host of a name that does not resolve
	d.transfer = ""
	return openStream(ctx, d.Terminal, d.client, req)
}

// dialAgain waits for a host whose connection was lost.
func (d *fileDialer) dialAgain(ctx context.Context, req api.StreamRequest) (io.ReadWriteCloser, error) {
	d.Say("tunctl: lost the connection to %s; waiting for it", req.Host)
	for {
		s, err := d.client.Stream(ctx, req)
		switch {
		case err == nil:
			d.Say("tunctl: reconnected to %s", req.Host)
			return s, nil
		case api.HasCode(err, api.CodeTimeout) && ctx.Err() == nil:
			// The agent keeps trying.
		case api.HasCode(err, api.CodeNeedsPerson) && d.Interactive:
			req.Again = false
			return openStream(ctx, d.Terminal, d.client, req)
		case api.HasCode(err, api.CodeNeedsPerson):
			return nil, api.ReplaceHint(err, "`tunctl login %s`, then rerun with --resume", req.Host)
		default:
			return nil, err
		}
	}
}

// transferNode is the data-transfer node of a host as an ssh destination; "" where it
// has none. The user is that of the host, unless the config or the user's ssh config sets
// another.
func transferNode(ctx context.Context, t *term.Terminal, p home.Paths, host string) string {
	cfg := readConfig(p)
	node := loadSites(t, p).TransferNode(cfg.Host(host))
	if node == "" || strings.Contains(node, "@") {
		return node
	}
	read := resolver(p, cfg)
	there, err1 := read.Settings(ctx, node)
	login, err2 := read.Settings(ctx, host)
	me, err3 := user.Current()
	if errors.Join(err1, err2, err3) == nil && there.User == me.Username && there.User != login.User {
		return login.User + "@" + node
	}
	return node
}

// The values of --via.
const (
	viaLogin    = "login"
	viaTransfer = "transfer"
)
