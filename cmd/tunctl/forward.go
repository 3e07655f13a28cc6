package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func forwardCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "forward",
		Usage:     "forward ports through a host or to a job, temporarily",
		ArgsUsage: "HOST|SESSION [SPEC...]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bind", Usage: "listen on `ADDR` instead of loopback; * for all interfaces"},
			&cli.BoolFlag{Name: "remove", Usage: "end these forwards of a session"},
			waitFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		Action: invokeInterruptible(t, forwardPorts),
	}
}

func forwardPorts(ctx context.Context, inv *invocation) error {
	if inv.NArg() == 0 {
		return usagef("forward takes a session or a host, and a port, as in `tunctl forward jupyter 6006` or `tunctl forward narval 5432:db.int:5432`")
	}
	st, err := inv.status(ctx)
	if err != nil {
		return err
	}
	to := parseDestination(readConfig(inv.paths), st, inv.Args().First())
	if inv.NArg() == 1 && to.Session != "" && !inv.Bool("remove") {
		return offerListeners(ctx, inv, to.Session)
	}
	if inv.NArg() == 1 {
		return usagef("forward takes a port, too, as in `tunctl forward narval 5432:db.int:5432`; without one it lists what listens inside the job of a session")
	}
	req := api.ForwardRequest{Host: to.Host, Specs: inv.Args().Tail(), Bind: inv.String("bind"), Remove: inv.Bool("remove")}
	switch {
	case to.Node != "":
		return usagef("forward takes a host or a session, not a node: write \"9000:NODE:9000\" for a port of another node of the job, with the name of the node")
	case req.Remove && to.Session == "":
		return usagef("--remove is for the forwards of a session: `tunctl down NAME` ends those through a host")
	case show.OpenToOthers(req.Bind) && !req.Remove:
		inv.Say("! listening on %s: anyone who can reach this computer can use the forward", req.Bind)
	}
	if to.Session != "" {
		req.Host, req.Session = "", to.Session
		return forwardSession(ctx, inv, req)
	}
	u := newForward(inv, req)
	if err := u.start(ctx, false); err != nil {
		return inv.withNearSession(inv.Args().First(), err)
	}
	if !u.json {
		inv.Say("`tunctl down %s` stops forwarding", u.name)
	}
	return nil
}

// newForward is an up of forwards through a host.
func newForward(inv *invocation, req api.ForwardRequest) *up {
	u := newUp(inv)
	u.request = func(ctx context.Context) (api.UpResponse, error) {
		r, err := u.client.Forward(ctx, req)
		return r.UpResponse, err
	}
	return u
}

// forwardSession forwards ports to the job of a session that is up.
func forwardSession(ctx context.Context, inv *invocation, req api.ForwardRequest) error {
	res, err := inv.client.Forward(ctx, req)
	if errors.Is(err, client.ErrNotRunning) {
		return api.Errorf(api.CodeNotReady, "session %s is down", req.Session).
			WithHint("`tunctl up %s` starts it", req.Session)
	}
	if err != nil {
		return err
	}
	if inv.Bool("json") {
		return inv.PrintJSON(upLine{Type: "session", Session: &res.Session})
	}
	s := res.Session
	if req.Remove {
		for _, f := range res.Forwards {
			inv.Say("%s is closed", f.Listen)
		}
		return nil
	}
	for _, f := range res.Forwards {
		if f.Note != "" {
			inv.Say("! %s", f.Note)
		}
		inv.Say("  %s", show.Forward(f, show.JobPlace(s)))
		fmt.Fprintln(inv.Out, f.Listen)
	}
	if len(res.Forwards) > 0 && res.Forwards[0].Target == "" && res.Forwards[0].Kind == api.ForwardLocal {
		inv.Say("%s is %s%s: connections wait until its job runs", s.Name, s.State, show.Because(s.Cause))
	}
	if slices.ContainsFunc(res.Forwards, func(f api.Forward) bool { return f.Added }) { // else they are in the config
		specs := strings.Join(req.Specs, " ")
		if req.Bind != "" {
			specs += " --bind " + req.Bind
		}
		inv.Say("`tunctl forward %s --remove %s` stops forwarding, and so does `tunctl down %s`", s.Name, specs, s.Name)
	}
	return nil
}
