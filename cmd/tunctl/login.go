package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

func loginCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "login",
		Usage:     "log in to a host: password, one-time code or host key",
		ArgsUsage: "[HOST]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "save", Usage: "save the password in the system keyring"},
			&cli.BoolFlag{Name: "remember", Usage: "keep the password in memory until the agent stops"},
		},
		Action: invokeInterruptible(t, takes(0, 1, "login takes one HOST, as named in your ssh config", ofHost(logIn))),
	}
}

func logIn(ctx context.Context, inv *invocation, host string) error {
	keep := api.KeepNot
	switch {
	case inv.Bool("save"):
		keep = api.KeepKeyring
	case inv.Bool("remember"):
		keep = api.KeepMemory
	}
	st, err := inv.ensureAgent(ctx)
	if err != nil {
		return err
	}
	if err := inv.login(ctx, host, keep); err != nil {
		return err
	}
	if keep == api.KeepNot {
		return offerKey(ctx, inv, host)
	}
	if isConnected(st, host) {
		inv.Say("nothing was saved: %s was connected already; `tunctl logout %s` first", host, host)
	} else if !slices.Contains(inv.asked, api.PromptPassword) {
		inv.Say("nothing was saved: the login asked for no password")
	}
	return nil
}

func logoutCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "logout",
		Usage:     "disconnect from a host; its sessions wait until you log in again",
		ArgsUsage: "[HOST]",
		Action:    invoke(t, takes(0, 1, "logout takes one HOST, as named in your ssh config", ofHost(logOut))),
	}
}

func logOut(ctx context.Context, inv *invocation, host string) error {
	if err := inv.refuseSession(host); err != nil {
		return err
	}
	st, _ := inv.client.Status(ctx)
	known := slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == host && h.State != api.HostDown })
	err := inv.client.Logout(ctx, host)
	if errors.Is(err, client.ErrNotRunning) {
		inv.Say("the agent is not running: no host is connected")
		return nil
	}
	if err == nil && !known {
		inv.Say("%s was not connected", host)
	} else if err == nil {
		inv.Say("disconnected from %s", host)
	}
	return err
}

// connectHost connects to a host by login, which may say so, unless it is connected.
func (inv *invocation) connectHost(ctx context.Context, host string, login func(ctx context.Context, host string, keep api.Keep) error) error {
	st, err := inv.ensureAgent(ctx)
	if err != nil || isConnected(st, host) {
		return err
	}
	return login(ctx, host, api.KeepNot)
}

func isConnected(st api.Status, host string) bool {
	return slices.ContainsFunc(st.Hosts, func(h api.Host) bool { return h.Alias == host && h.State == api.HostUp })
}

// login connects to a host and says so. The agent must be running.
func (inv *invocation) login(ctx context.Context, host string, keep api.Keep) error {
	if err := inv.authenticate(ctx, host, keep); err != nil {
		return withSiteAdvice(ctx, inv.paths, host, err)
	}
	inv.Say("%s connected to %s", inv.Paint(term.Green, "✓"), host)
	return nil
}

// authenticate has the agent connect to a host, and puts the host's questions to the user.
func (inv *invocation) authenticate(ctx context.Context, host string, keep api.Keep) error {
	if err := inv.refuseSession(host); err != nil {
		return err
	}
	q := &promptReader{term: inv.Terminal, client: inv.client, keep: keep, host: host}
	events, stop := q.events(ctx, "")
	<-events // the status: from now on no event is missed
	h, err := inv.client.Login(ctx, host)
	for err == nil && h.State != api.HostUp {
		e, more := <-events
		if !more {
			err = cmp.Or(ctx.Err(), error(api.Errorf(api.CodeAgent, "the agent has stopped")))
		} else if e.Type == api.EventHost && e.Host.Alias == host {
			h = *e.Host
			if err = loginError(h); err != nil || h.State == api.HostUp {
				for _, w := range h.Warnings {
					inv.Say("tunctl: warning: %s", w)
				}
			}
		}
	}
	stop()
	inv.asked = q.kinds
	return err
}

// loginError is why a login has failed; nil: it has not, or not yet.
func loginError(h api.Host) error {
	e := api.Errorf(h.Code, "%s", cmp.Or(h.Cause, fmt.Sprintf("%s is %s", h.Alias, h.State))).WithHint("%s", h.Hint)
	switch h.State {
	case api.HostNeedsLogin:
		e.Code = api.CodeNeedsPerson
	case api.HostDown:
		e.Message = fmt.Sprintf("the login to %s was cancelled by a logout", h.Alias)
	case api.HostUp, api.HostConnecting:
		return nil
	}
	e.Code = cmp.Or(e.Code, api.CodeUnreachable)
	return e
}
