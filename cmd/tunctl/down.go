package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

func downCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "down",
		Usage:     "stop forwarding; with --cancel also end the job",
		ArgsUsage: "[SESSION...]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "cancel", Usage: "also end the jobs, so that they are no longer charged; asks first"},
			&cli.BoolFlag{Name: "all", Usage: "disconnect all sessions"},
			yesFlag(),
		},
		Action: invokeInterruptible(t, down),
	}
}

func down(ctx context.Context, inv *invocation) error {
	before, err := liveStatus(ctx, inv.client)
	if inv.Bool("cancel") { // a job may still run, and be charged
		before, err = inv.ensureAgent(ctx)
	}
	if err != nil {
		return err
	}
	requests, err := downRequests(ctx, inv, before)
	if err != nil {
		return err
	}
	return takeDown(ctx, inv, before, requests)
}

// takeDown disconnects sessions, and ends the jobs of those that say so, once the user agrees.
func takeDown(ctx context.Context, inv *invocation, before api.Status, requests []api.DownRequest) error {
	sessions := slices.DeleteFunc(slices.Clone(before.Sessions), func(s api.Session) bool {
		return !slices.ContainsFunc(requests, func(r api.DownRequest) bool { return r.Cancel && r.Session == s.Name })
	})
	if err := confirmCancel(ctx, inv, sessions...); err != nil {
		return err
	}
	var errs []error
	for _, req := range requests {
		res, err := sendDown(ctx, inv, req)
		if ctx.Err() != nil {
			inv.Say("stopped waiting; `tunctl status` shows what was done")
			return err
		}
		if errors.Is(err, client.ErrNotRunning) && !req.Cancel {
			inv.Say(noAgent)
			return nil
		}
		for _, line := range action.DownTexts(res, before, time.Now()) {
			inv.Say("%s", line)
		}
		errs = append(errs, err)
	}
	return reportFailures(inv.Terminal, errs)
}

const nothingToCancel = "no session is up or has a running job"

// downRequests are the requests of the arguments, one for each session.
func downRequests(ctx context.Context, inv *invocation, st api.Status) ([]api.DownRequest, error) {
	req := api.DownRequest{All: inv.Bool("all"), Cancel: inv.Bool("cancel")}
	switch {
	case req.All && inv.NArg() > 0:
		return nil, usagef("down takes either --all or the names of sessions")
	case req.All && req.Cancel:
		return cancelAll(inv, st), nil
	case req.All:
		return []api.DownRequest{req}, nil
	}
	names := inv.Args().Slice()
	if len(names) == 0 {
		question, none, tests := "Disconnect which session?", "no session is up", []func(api.Session) bool{isNotDown}
		if req.Cancel {
			question, none = "Disconnect which session and end its job?", nothingToCancel
			tests = []func(api.Session) bool{action.MayBeCharged, isNotDown}
		}
		name, err := inv.fittingSession(ctx, question, none, tests...)
		if errors.Is(err, errNoneFits) {
			inv.Say("%s", none)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		names = []string{name}
	}
	var requests []api.DownRequest
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		req.Session = name
		requests = append(requests, req)
	}
	return requests, nil
}

// cancelAll has a request for each session that is up or has a job: a job may run although its
// session is down, and one that cannot be cancelled keeps no other from it.
func cancelAll(inv *invocation, st api.Status) []api.DownRequest {
	var requests []api.DownRequest
	for _, s := range st.Sessions {
		if isNotDown(s) || action.MayBeCharged(s) {
			requests = append(requests, api.DownRequest{Session: s.Name, Cancel: true})
		}
	}
	if len(requests) == 0 {
		inv.Say(nothingToCancel)
	}
	return requests
}

// confirmCancel asks whether to end the jobs of sessions, if they have any.
func confirmCancel(ctx context.Context, inv *invocation, sessions ...api.Session) error {
	question := action.CancelQuestion(time.Now(), sessions...)
	if question == "" {
		return nil
	}
	return confirm(ctx, inv.Terminal, inv.Bool("yes"), question, action.NotCancelled(time.Now(), sessions...))
}

// sendDown sends a request. The agent stores what is to be ended before it connects to a host, whose
// questions are put to the user meanwhile.
func sendDown(ctx context.Context, inv *invocation, req api.DownRequest) (res api.DownResponse, err error) {
	if !req.Cancel {
		return inv.client.Down(ctx, req)
	}
	inv.Draw("ending the jobs of " + req.Session + "; after Ctrl-C the agent continues…")
	defer inv.Draw("")
	q := &promptReader{term: inv.Terminal, client: inv.client}
	said := false
	q.during(ctx, func() { res, err = inv.client.Down(ctx, req) }, func(e api.Event) {
		if now := sessionIn(e, req.Session); !said && now.State == api.SessionDown && now.Pending && now.Cause != "" {
			said = true
			inv.Say("%s", now.Cause)
		}
	})
	return res, err
}

// sessionIn is a session as an event shows it; empty: it does not.
func sessionIn(e api.Event, name string) (s api.Session) {
	if e.Status != nil {
		s, _ = e.Status.Session(name)
	} else if e.Session != nil && e.Session.Name == name {
		s = *e.Session
	}
	return s
}
