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
		Description: `Without SESSION: the session that is up. The job keeps running, and is charged, unless --cancel ends it.

			  tunctl down
			  tunctl down jupyter --cancel
			  tunctl down jupyter db`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "cancel", Usage: "also end the job, so that it is no longer charged; asks first"},
			&cli.BoolFlag{Name: "all", Usage: "disconnect all sessions"},
			yesFlag(),
		},
		Action: invokeInterruptible(t, down),
	}
}

func down(ctx context.Context, inv *invocation) error {
	before, err := inv.client.Status(ctx)
	if inv.Bool("cancel") { // a job may still run, and be charged
		before, err = inv.ensureAgent(ctx)
	}
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	requests, err := downRequests(ctx, inv, before)
	if err != nil {
		return err
	}
	return takeDown(ctx, inv, before, requests)
}

// takeDown disconnects sessions, and ends the jobs of those that say so, once the person agrees.
func takeDown(ctx context.Context, inv *invocation, before api.Status, requests []api.DownRequest) error {
	if err := confirmCancel(ctx, inv, before, requests); err != nil {
		return err
	}
	var errs []error
	for _, req := range requests {
		err := connectToCancel(ctx, inv, before, req)
		var res api.DownResponse
		if err == nil {
			if req.Cancel {
				inv.Draw("ending the jobs of " + req.Session + "; after Ctrl-C the agent continues…")
			}
			res, err = downWatched(ctx, inv, req)
			inv.Draw("")
		}
		if ctx.Err() != nil {
			inv.Say("stopped waiting; `tunctl status` shows what was done")
			return err
		}
		if errors.Is(err, client.ErrNotRunning) && !req.Cancel {
			inv.Say(noAgent)
			return nil
		}
		for _, s := range res.Sessions {
			for _, line := range action.DownText(s, before, time.Now()) {
				inv.Say("%s", line)
			}
		}
		errs = append(errs, err)
	}
	return reportFailures(inv.Terminal, errs)
}

// downWatched takes a session down. If a job may still appear that is to be ended, which takes
// minutes, it says so.
func downWatched(ctx context.Context, inv *invocation, req api.DownRequest) (api.DownResponse, error) {
	watching, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	defer func() { stop(); <-over }()
	go func() {
		defer close(over)
		said := !req.Cancel
		_ = inv.client.Watch(watching, api.AnswersNone, "", func(e api.Event) { // the request has the error
			s := e.Session
			if e.Status != nil {
				now, _ := e.Status.Session(req.Session)
				s = &now
			}
			if !said && s != nil && s.Name == req.Session && s.State == api.SessionDown && s.Pending {
				said = true
				inv.Say("%s", s.Cause)
			}
		})
	}()
	return inv.client.Down(ctx, req)
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

// confirmCancel asks whether to end the jobs that --cancel would end.
func confirmCancel(ctx context.Context, inv *invocation, st api.Status, requests []api.DownRequest) error {
	var jobs []api.Job
	for _, s := range st.Sessions {
		asked := slices.ContainsFunc(requests, func(r api.DownRequest) bool { return r.Cancel && r.Session == s.Name })
		if asked && s.HasLiveJob() {
			jobs = append(jobs, *s.Job)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	return confirm(ctx, inv.Terminal, inv.Bool("yes"), action.CancelQuestion(time.Now(), jobs...))
}

// connectToCancel connects to the host of the job that a request would end.
func connectToCancel(ctx context.Context, inv *invocation, st api.Status, req api.DownRequest) error {
	if s, ok := st.Session(req.Session); ok && req.Cancel && action.MayBeCharged(s) && !isConnected(st, s.Host) {
		return inv.authenticate(ctx, s.Host, api.KeepNot)
	}
	return nil
}
